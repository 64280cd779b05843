// A debugger's side: operations one by one, and memory read and written between them.
#pragma once
#include "replay/memory.h"
#include "replay/program.h"

namespace warpsight::replay {

// Reads commands from standard input until it ends and answers each with one line on standard output:
//   step            issue the next operation and wait for it       -> at N
//   restart         contents as before the first operation         -> at 0
//   read ADDR SIZE  followed in the answer by SIZE bytes           -> bytes SIZE
//   write ADDR SIZE followed in the command by SIZE bytes          -> ok
// or with `error WHAT`. Addresses are hexadecimal.
bool serve(const Driver& driver, const Script& script, Memory* memory, Program* program, Report* report);

}  // namespace warpsight::replay
