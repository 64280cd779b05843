// Allocation rows.
#pragma once

#include "command.h"

namespace warpsight {

// `operation`: 1 allocate, 2 free. `context` may be null when the call does not have it.
void write_memory(HostCall& call, uint8_t operation, uint64_t address, uint64_t bytes, cl_context context,
                  MemoryKind kind);

}  // namespace warpsight
