#include "stacks/native_frames.h"

#include <link.h>
#include <stdio.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "ring/ring.h"
#include "stacks/definitions.h"
#include "stacks/elf_file.h"
#include "stacks/flat_table.h"
#include "stacks/interpreter.h"

#ifdef WARPSIGHT_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#else
#include <unwind.h>
#endif

namespace warpsight {

namespace {

struct Range {
  uint64_t start;
  uint64_t end;
};

struct LoadedModule {
  uint64_t start, end;  // the executable segment
  uint64_t bias;        // load address minus the file's virtual address
  std::string path;
  uint32_t name;  // string ids
  uint32_t build_id;
  bool ours;    // libwarpsight, CUPTI and the like: our side of a callback, no caller's frame
  bool opened;  // `file` has been tried
  std::unique_ptr<ElfFile> file;
  std::vector<Range> evaluators;  // where _PyEval_EvalFrameDefault is, its cold part included

  ElfFile* symbols();
};

ElfFile* LoadedModule::symbols() {
  if (!opened) {
    opened = true;
    file = std::make_unique<ElfFile>();
    if (!file->open(path.c_str())) file.reset();
  }
  return file.get();
}

struct ModuleList {
  std::vector<LoadedModule> modules;
  unsigned long long loads = 0, unloads = 0;  // the loader's counters when the list was made
};
ModuleList* g_modules = nullptr;  // never freed: threads may be walking when the process exits

struct AddressKey {
  uint64_t address;
};
FlatTable<AddressKey>* g_frames = nullptr;  // frame ids by return address

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string executable_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

void find_evaluators(LoadedModule* module) {
  const uint64_t known = g_interpreter.evaluator;
  if (known < module->start || known >= module->end) return;
  if (const ElfFile* file = module->symbols()) {
    file->each_function([&](std::string_view name, uint64_t start, uint64_t size) {
      if (name.substr(0, 24) == "_PyEval_EvalFrameDefault" && size) {
        module->evaluators.push_back({module->bias + start, module->bias + start + size});
      }
    });
  }
}

int add_module(dl_phdr_info* info, size_t, void* data) {
  ModuleList* list = static_cast<ModuleList*>(data);
  list->loads = info->dlpi_adds;
  list->unloads = info->dlpi_subs;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    LoadedModule module = {};
    module.bias = info->dlpi_addr;
    module.start = info->dlpi_addr + segment.p_vaddr;
    module.end = module.start + segment.p_memsz;
    module.path = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : executable_path();
    const uint64_t own = reinterpret_cast<uint64_t>(&return_addresses);
    module.ours = (own >= module.start && own < module.end) || contains(module.path, "libcupti");
    for (const char* library : kCallbackLibraries)
      module.ours = module.ours || contains(module.path, library);
    list->modules.push_back(std::move(module));
  }
  return 0;
}

int read_counters(dl_phdr_info* info, size_t, void* data) {
  ModuleList* list = static_cast<ModuleList*>(data);
  list->loads = info->dlpi_adds;
  list->unloads = info->dlpi_subs;
  return 1;
}

LoadedModule* module_of(uint64_t address) {
  if (!g_modules) return nullptr;
  for (LoadedModule& module : g_modules->modules) {
    if (address >= module.start && address < module.end) return &module;
  }
  return nullptr;
}

void name_module(LoadedModule* module) {
  if (module->name) return;
  module->name = intern(module->path);
  const ElfFile* file = module->symbols();
  module->build_id = file ? intern(file->build_id()) : 0;
}

// A call is one instruction before the address it returns to, which may already belong to the next function.
uint64_t call_site(uint64_t address) { return address - 1; }

}  // namespace

bool refresh_modules() {
  ModuleList now;
  dl_iterate_phdr(read_counters, &now);
  if (g_modules && now.loads == g_modules->loads && now.unloads == g_modules->unloads) return false;
  const bool unloaded = g_modules && now.unloads != g_modules->unloads;
  ModuleList* fresh = new ModuleList();
  dl_iterate_phdr(add_module, fresh);
  delete g_modules;
  g_modules = fresh;
  for (LoadedModule& module : g_modules->modules) find_evaluators(&module);
  if (unloaded && g_frames) g_frames->clear();
  return unloaded;
}

AddressKind address_kind(uint64_t address) {
  const LoadedModule* module = module_of(call_site(address));
  if (!module) return AddressKind::plain;
  if (module->ours) return AddressKind::ours;
  for (const Range& range : module->evaluators) {
    if (call_site(address) >= range.start && call_site(address) < range.end) return AddressKind::evaluator;
  }
  const uint64_t known = g_interpreter.evaluator;
  return known >= module->start && known < module->end ? AddressKind::interpreter : AddressKind::plain;
}

uint32_t native_frame(uint64_t address) {
  if (!g_frames) g_frames = new FlatTable<AddressKey>();
  if (const uint32_t known = g_frames->find({address})) return known;
  FrameKey key = {0, 0, 0, 0, call_site(address), kFrameNative};
  std::string name;
  if (LoadedModule* module = module_of(call_site(address))) {
    name_module(module);
    key.file = module->name;
    key.build_id = module->build_id;
    key.address -= module->bias;
    if (const ElfFile* file = module->symbols()) name = file->function_at(key.address);
  }
  if (name.empty()) {
    char text[32];
    snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(key.address));
    name = text;
  }
  key.function = intern(name);
  const uint32_t id = key.function ? define_frame(key) : 0;
  if (id) g_frames->add({address}, id);
  return id;
}

void forget_native_frames() {
  g_modules = nullptr;
  g_frames = nullptr;
}

#ifdef WARPSIGHT_LIBUNWIND

uint32_t return_addresses(uint64_t* addresses, uint32_t limit) {
  const int count = unw_backtrace(reinterpret_cast<void**>(addresses), static_cast<int>(limit));
  return count > 0 ? static_cast<uint32_t>(count) : 0;
}

#else

namespace {

struct Collected {
  uint64_t* addresses;
  uint32_t limit;
  uint32_t count;
};

_Unwind_Reason_Code collect(_Unwind_Context* context, void* data) {
  Collected* collected = static_cast<Collected*>(data);
  if (collected->count == collected->limit) return _URC_END_OF_STACK;
  const uint64_t address = _Unwind_GetIP(context);
  if (!address) return _URC_END_OF_STACK;
  collected->addresses[collected->count++] = address;
  return _URC_NO_REASON;
}

}  // namespace

uint32_t return_addresses(uint64_t* addresses, uint32_t limit) {
  Collected collected = {addresses, limit, 0};
  _Unwind_Backtrace(collect, &collected);
  return collected.count;
}

#endif

}  // namespace warpsight
