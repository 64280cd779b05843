// Loaded modules: a row for each, and which module a kernel comes from.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "ring/ring.h"

namespace warpsight {

extern std::atomic<uint64_t> g_module_generation;  // goes up when a kernel's module may have changed

// From CUPTI's resource callbacks, on the program's thread.
void module_loaded(CUcontext context, const CUpti_ModuleResourceData& module);
void module_unloading(CUcontext context, const CUpti_ModuleResourceData& module);

// Identifies images: their size and a CRC. 0 means none.
uint64_t image_checksum(const void* image, size_t size);

// CUPTI's number of a context, 0 if it has none.
uint32_t context_id(CUcontext context);

// Whether modules may have been loaded before we were notified, because recording did not begin with CUDA.
// CUPTI reports a module, and its image, only when it is loaded; the driver provides neither later.
void set_modules_incomplete(bool incomplete);

// Which module has a kernel. Records arrive late: a kernel that began before `since` is of the module before.
struct KernelModule {
  uint32_t module, earlier;
  uint64_t since;
  bool elsewhere;  // it may be of a module that was loaded while nothing was recorded
};

// The decoder's cache of kernels: their module by name id and context, until modules are loaded or unloaded.
class ModuleCache {
 public:
  // The module that holds a kernel in a context; 0 when it was loaded before recording began, or when several
  // different modules of the context have a kernel of that name.
  uint32_t module_of(uint32_t context, uint32_t name_id, const char* name, uint64_t start);

  // Whether the answer just given was 0 because the module was loaded while nothing was recorded.
  bool loaded_unheard() const { return loaded_unheard_; }

 private:
  std::unordered_map<uint64_t, KernelModule> known_;
  uint64_t generation_ = 0;
  bool loaded_unheard_ = false;
};

// Changes before CUPTI frees the name of any kernel, and when string ids start over: until then, a name at an
// address is the same name as before. Only between callbacks of one recording.
inline uint64_t names_generation() {
  return g_module_generation.load(std::memory_order_relaxed) << 32 | definitions_generation();
}
// A context goes, and its modules with it.
void context_ends();

}  // namespace warpsight
