#include "cuda/modules.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "cuda/cubin_names.h"
#include "cuda/cubins.h"
#include "cuda/functions.h"
#include "cuda/machine.h"
#include "ring/crc32.h"
#include "ring/hot.h"
#include "runtime/runtime.h"

namespace warpsight {

WARPSIGHT_HOT_DATA std::atomic<uint64_t> g_module_generation{0};

namespace {

// A large image's first MiB and its size identify it well enough.
constexpr size_t kMostChecksummed = 1 << 20;
constexpr uint32_t kAmbiguous = 0;

struct Holder {
  uint64_t checksum;
  KernelModule kernel;  // module kAmbiguous: different images of the context have this kernel
  bool gone;            // the module was unloaded; records of its kernels may still come
};
struct Loaded {
  uint32_t context, id;
  std::vector<uint64_t> kernels;  // keys of its kernels
};

// Nothing calls CUPTI while holding it.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the containers
struct Known {
  std::unordered_map<uint64_t, Holder> holders;  // by context and name
  std::unordered_map<uint64_t, Loaded> modules;  // by context and CUPTI's module id
  std::unordered_set<uint64_t>
      elsewhere;  // kernels that ran, of modules we did not hear of: by context and name
};
Known& known() {
  static Known* const value = new Known;  // never destroyed: callbacks outlive static destructors
  return *value;
}
std::atomic<bool> g_incomplete{false};
std::atomic<uint32_t> g_modules{0};  // last module id given

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
};

uint64_t key_of(uint32_t context, std::string_view name) {
  return std::hash<std::string_view>{}(name) ^ (context * 0x9E3779B97F4A7C15ull);
}

uint64_t pair_of(uint32_t context, uint32_t number) { return static_cast<uint64_t>(context) << 32 | number; }

void take_kernel(void* data, std::string_view name, std::string_view) {
  auto* loaded = static_cast<Loaded*>(data);
  loaded->kernels.push_back(key_of(loaded->context, name));
}

// Under g_lock.
void forget(const Loaded& loaded) {
  auto& holders = known().holders;
  for (const uint64_t key : loaded.kernels) {
    const auto found = holders.find(key);
    if (found != holders.end() && found->second.kernel.module == loaded.id) found->second.gone = true;
  }
}

void remember(uint32_t number, uint64_t checksum, uint64_t time, Loaded loaded) {
  Guard guard;
  auto& before = known().modules[pair_of(loaded.context, number)];
  forget(before);
  for (const uint64_t key : loaded.kernels) {
    const auto [place, fresh] =
        known().holders.try_emplace(key, Holder{checksum, {loaded.id, kAmbiguous, 0, false}, false});
    Holder& holder = place->second;
    if (fresh) {
      // Kernels begun earlier ran from elsewhere, and code seen running from elsewhere may continue to.
      if (g_incomplete.load(std::memory_order_relaxed)) holder.kernel.since = time;
      if (known().elsewhere.count(key) != 0) holder = {0, {kAmbiguous, kAmbiguous, 0, true}, false};
      continue;
    }
    if (holder.gone) {
      holder = {checksum, {loaded.id, holder.kernel.module, time, false}, false};
    } else if (holder.checksum != checksum) {
      holder = {0, {kAmbiguous, kAmbiguous, 0, false}, false};
    }
  }
  before = std::move(loaded);
  g_module_generation.fetch_add(1, std::memory_order_release);
}

}  // namespace

uint64_t image_checksum(const void* image, size_t size) {
  if (image == nullptr) return 0;
  const uint64_t crc = crc32(0, image, std::min(size, kMostChecksummed));
  return static_cast<uint64_t>(size) << 32 | crc;
}

uint32_t context_id(CUcontext context) {
  uint32_t id = 0;
  if (cupti().cuptiGetContextId != nullptr && context != nullptr) cupti().cuptiGetContextId(context, &id);
  return id;
}

void module_loaded(CUcontext context, const CUpti_ModuleResourceData& module) {
  Module row = {};
  row.id = g_modules.fetch_add(1) + 1;
  row.size = module.cubinSize;
  row.time = now_ns();
  row.checksum = image_checksum(module.pCubin, module.cubinSize);
  row.context = context_id(context);
  row.device = device_of_context(row.context);
  char name[32];
  snprintf(name, sizeof name, "cubin %u", module.moduleId);
  row.name = intern(name);
  write(row);
  Loaded loaded = {row.context, row.id, {}};
  kernels_of_cubin(module.pCubin, module.cubinSize, take_kernel, &loaded);
  remember(module.moduleId, row.checksum, row.time, std::move(loaded));
  keep_cubin(row.checksum, module.pCubin, module.cubinSize);
}

void module_unloading(CUcontext context, const CUpti_ModuleResourceData& module) {
  const uint32_t id = context_id(context);
  Guard guard;
  g_module_generation.fetch_add(1, std::memory_order_release);
  const auto found = known().modules.find(pair_of(id, module.moduleId));
  if (found == known().modules.end()) return;
  forget(found->second);
  known().modules.erase(found);
}

void context_ends() { g_module_generation.fetch_add(1, std::memory_order_release); }

void set_modules_incomplete(bool incomplete) { g_incomplete.store(incomplete, std::memory_order_relaxed); }

uint32_t ModuleCache::module_of(uint32_t context, uint32_t name_id, const char* name, uint64_t start) {
  const uint64_t generation = g_module_generation.load(std::memory_order_acquire);
  loaded_unheard_ = false;
  if (name == nullptr || (generation == 0 && !g_incomplete.load(std::memory_order_relaxed))) return 0;
  if (generation != generation_) {
    known_.clear();
    generation_ = generation;
  }
  const auto [place, fresh] = known_.try_emplace(pair_of(context, name_id));
  KernelModule& kernel = place->second;
  if (fresh) {
    Guard guard;
    const auto found = known().holders.find(key_of(context, name));
    if (found != known().holders.end())
      kernel = found->second.kernel;
    else if (g_incomplete.load(std::memory_order_relaxed))
      known().elsewhere.insert(key_of(context, name)), kernel.elsewhere = true;
  }
  const uint32_t module = start >= kernel.since ? kernel.module : kernel.earlier;
  const bool before = start < kernel.since && g_incomplete.load(std::memory_order_relaxed);
  loaded_unheard_ = module == 0 && (kernel.elsewhere || before);
  return module;
}

}  // namespace warpsight
