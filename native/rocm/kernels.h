// Code objects and the kernels in them: dispatches name a kernel by number, and only its registration says
// the rest.
#pragma once

#include <cstdint>

#include "rocm/abi.h"

namespace warpsight::rocm {

struct KernelSymbol {
  const char* name;      // mangled; stays valid
  uint32_t registers;    // vector registers of a work-item, accumulation registers included
  uint32_t group_bytes;  // static LDS of a work-group
  uint32_t module;       // module id, 0 unknown
};

// The callback of kCodeObject; on the program's threads, recording or not.
void on_code_object(int operation, int phase, const void* payload);

// False for a kernel whose registration was not seen.
bool find_kernel(uint64_t kernel, KernelSymbol* symbol);

// Rows of the modules that have none yet: those loaded while nothing was recorded.
void write_modules();

}  // namespace warpsight::rocm
