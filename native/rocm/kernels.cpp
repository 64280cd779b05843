#include "rocm/kernels.h"

#include <pthread.h>

#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "rocm/agents.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

constexpr char kDescriptor[] = ".kd";  // symbols of kernel descriptors end so; the function's name does not

struct LoadedModule {
  uint64_t code_object;
  std::string name;
  uint64_t bytes, agent, time;
  bool has_row;
};

// Registrations are rare, look-ups one per dispatch and record: nothing calls out while holding the lock.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the containers
struct Known {
  std::unordered_map<uint64_t, KernelSymbol> kernels;  // by number; never forgotten, since records come late
  std::unordered_map<uint64_t, uint32_t> module_of_code;  // module id by code object
  std::vector<LoadedModule> modules;                      // module id - 1 is the place
};
Known& known() {
  static Known* const value = new Known;  // never destroyed: callbacks outlive static destructors
  return *value;
}

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
};

// A copy that stays, without the descriptor's ending.
const char* kept_name(const char* name) {
  size_t length = strlen(name);
  const size_t ending = sizeof kDescriptor - 1;
  if (length > ending && strcmp(name + length - ending, kDescriptor) == 0) length -= ending;
  return strndup(name, length);
}

void load(const CodeObjectData& code) {
  if (!WARPSIGHT_ROCM_HAS(code, CodeObjectData, load_size)) return;
  Guard guard;
  known().modules.push_back({code.id,
                             code.uri != nullptr ? code.uri : "code object " + std::to_string(code.id),
                             code.load_size, code.agent, now_ns(), false});
  known().module_of_code[code.id] = static_cast<uint32_t>(known().modules.size());
}

void take_symbol(const SymbolData& symbol) {
  if (!WARPSIGHT_ROCM_HAS(symbol, SymbolData, name) || symbol.name == nullptr) return;
  KernelSymbol kernel = {kept_name(symbol.name), 0, 0, 0};
  if (kernel.name == nullptr) return;
  if (WARPSIGHT_ROCM_HAS(symbol, SymbolData, group_bytes)) kernel.group_bytes = symbol.group_bytes;
  if (WARPSIGHT_ROCM_HAS(symbol, SymbolData, accumulation_registers))
    kernel.registers = symbol.vector_registers + symbol.accumulation_registers;
  Guard guard;
  const auto module = known().module_of_code.find(symbol.code_object);
  if (module != known().module_of_code.end()) kernel.module = module->second;
  known().kernels[symbol.kernel] = kernel;
}

}  // namespace

void on_code_object(int operation, int phase, const void* payload) {
  if (phase != kEnter || payload == nullptr) return;
  if (operation == kCodeObjectLoad) {
    load(*static_cast<const CodeObjectData*>(payload));
    if (recording()) write_modules();
  } else if (operation == kSymbolRegister) {
    take_symbol(*static_cast<const SymbolData*>(payload));
  }
}

bool find_kernel(uint64_t kernel, KernelSymbol* symbol) {
  Guard guard;
  const auto found = known().kernels.find(kernel);
  if (found == known().kernels.end()) return false;
  *symbol = found->second;
  return true;
}

void write_modules() {
  std::vector<std::pair<uint32_t, LoadedModule>> fresh;
  {
    Guard guard;
    uint32_t id = 0;
    for (LoadedModule& module : known().modules) {
      ++id;
      if (module.has_row) continue;
      module.has_row = true;
      fresh.emplace_back(id, module);
    }
  }
  for (const auto& [id, module] : fresh) {
    Module row = {};
    row.id = id;
    row.name = intern(module.name);
    row.size = module.bytes;
    row.device = device_of(module.agent);
    row.context = context_of(row.device);
    row.time = module.time;
    write(row);
  }
}

}  // namespace warpsight::rocm
