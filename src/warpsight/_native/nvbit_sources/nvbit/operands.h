// What an instruction reads and writes, as NVBit decodes it.
#pragma once

#include <nvbit.h>

#include <cstdint>
#include <vector>

namespace warpsight {

// Registers in one numbering: R0 is 0, UR0 kUniform, then all predicates as bits of one register.
constexpr int kUniform = 256, kPredicates = 512, kUniformPredicates = 513;

// Those that the operands name, each once, in their order; predicates only when asked.
std::vector<int> registers_of(Instr* instruction, bool predicates);

// A memory access that is recorded.
struct Access {
  bool recorded = false;
  uint32_t kind = 0;   // as in a record; 0: a generic address
  uint32_t flags = 0;  // Sanitizer_DeviceMemoryFlags
  uint32_t bytes = 0;  // of a lane
  int first = 0;       // which of its memory operands
  int second = -1;     // which is the other address of a copy
  uint32_t count = 0;  // matrices
};

Access access_of(Instr* instruction);

// Whether control never comes back behind it.
bool ends_flow(Instr* instruction);

}  // namespace warpsight
