// Commands in progress, recycled without locks: the launching thread takes them, the driver's callback thread
// returns them.
#pragma once

#include <cstdint>

#include "command.h"

namespace warpsight {

struct CommandPool;

struct Command {
  Command* next;
  CommandPool* pool;  // where it goes back to
  ClQueue* queue;
  ClKernel* kernel;  // of a launch
  uint64_t entry, returned;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t name;
  uint32_t shape;
  uint32_t module;
  uint32_t value;
  Work work;
  CopyKind copy;
  MemoryKind source, destination;
  bool blocking;
  bool cold;
  bool owned;  // the event is ours to release
};

// A command from the calling thread's pool; nullptr when memory ran out.
Command* take_command();
void give_command(Command* command);

}  // namespace warpsight
