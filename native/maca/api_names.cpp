#include "maca/api_names.h"

#include <cupti.h>
#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <string>
#include <unordered_map>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint32_t kEventSync = 1, kStreamWaitEvent = 2, kStreamSync = 3, kContextSync = 4;

// number, group, wait, wanted and capture of a function in one word, so that readers take no lock; 0 not met.
// Release and acquire: the drainer that sees a row with the number must see its definition too.
std::atomic<uint64_t> g_functions[2][kMostMacaCallbacks];
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects numbers()

std::unordered_map<std::string, uint16_t>& numbers() {
  static auto* const value = new std::unordered_map<std::string, uint16_t>;  // never destroyed
  return *value;
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// "mcMemcpyAsync" of "mcMemcpyAsync_v7000" or "mcMemcpyAsync_ptsz".
std::string base_name(std::string name) {
  for (size_t at = name.rfind('_'); at != std::string::npos && at > 1; at = name.rfind('_')) {
    const std::string tail = name.substr(at + 1);
    const bool version =
        tail.size() > 1 && tail[0] == 'v' && strspn(tail.c_str() + 1, "0123456789") == tail.size() - 1;
    if (!version && tail != "ptsz" && tail != "ptds") break;
    name.resize(at);
  }
  return name;
}

MacaGroup group_of(const std::string& name) {
  if (has(name, "Launch") && (has(name, "Kernel") || has(name, "GraphLaunch") || has(name, "HostFunc")))
    return MacaGroup::launch;
  if (has(name, "Synchronize")) return MacaGroup::sync;
  if (has(name, "EventRecord") || has(name, "StreamWaitEvent")) return MacaGroup::event;
  if (has(name, "GraphInstantiate") || has(name, "GraphExecUpdate")) return MacaGroup::graph;
  if (has(name, "Graph")) return MacaGroup::other;  // nodes made by hand: nothing runs
  if (has(name, "Memcpy")) return MacaGroup::copy;
  if (has(name, "Memset")) return MacaGroup::set;
  for (const char* part : {"Malloc", "MemAlloc", "HostAlloc", "MemFree", "mcFree"}) {
    if (has(name, part)) return MacaGroup::memory;
  }
  if (has(name, "StreamCreate") || has(name, "StreamDestroy")) return MacaGroup::stream;
  if (has(name, "ModuleLoad") || has(name, "LibraryLoad")) return MacaGroup::module;
  return MacaGroup::other;
}

uint8_t wait_of(const std::string& name) {
  if (has(name, "StreamWaitEvent")) return kStreamWaitEvent;
  if (!has(name, "Synchronize")) return 0;
  return has(name, "Event") ? kEventSync : has(name, "Stream") ? kStreamSync : kContextSync;
}

bool is_wanted(const std::string& name, MacaGroup group) {
  const std::string& api = settings().api;
  if (api == "off") return false;
  if (api == "all" || group == MacaGroup::launch) return true;
  if (api == "default" || api.empty()) return group != MacaGroup::other;
  for (size_t from = 0; api != "launches" && from <= api.size();) {
    const size_t to = std::min(api.find(',', from), api.size());
    if (fnmatch(api.substr(from, to - from).c_str(), name.c_str(), 0) == 0) return true;
    from = to + 1;
  }
  return false;
}

uint16_t number_of(const std::string& name) {
  pthread_mutex_lock(&g_lock);
  const auto [place, fresh] = numbers().try_emplace(name, static_cast<uint16_t>(numbers().size() + 1));
  const uint16_t number = place->second;
  pthread_mutex_unlock(&g_lock);
  if (fresh) {
    ApiFunction row = {};
    row.domain = kApiMaca;
    row.number = number;
    row.name = intern(name);
    write(row);
  }
  return number;
}

uint64_t packed(const MacaFunction& f) {
  return uint64_t{f.number} | static_cast<uint64_t>(f.group) << 16 | uint64_t{f.wait} << 24 |
         static_cast<uint64_t>(f.wanted) << 32 | static_cast<uint64_t>(static_cast<uint8_t>(f.capture)) << 40;
}

MacaFunction unpacked(uint64_t word) {
  return {static_cast<uint16_t>(word), static_cast<MacaGroup>(word >> 16 & 0xff),
          static_cast<uint8_t>(word >> 24), (word >> 32 & 0xff) != 0, static_cast<int8_t>(word >> 40 & 0xff)};
}

// The library's own name of an id: from CUPTI's function, or a name that only MCPTI has.
class Names {
 public:
  explicit Names(void* library)
      : api_name_(reinterpret_cast<ApiName>(dlsym(library, "mcptiActivityGetApiName"))) {}
  bool known() const { return api_name_ != nullptr || cupti().cuptiGetCallbackName != nullptr; }
  const char* of(uint32_t domain, uint32_t cbid) const {
    const char* name = nullptr;
    const auto kind =
        domain == CUPTI_CB_DOMAIN_RUNTIME_API ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
    if (cupti().cuptiGetCallbackName != nullptr &&
        cupti().cuptiGetCallbackName(static_cast<CUpti_CallbackDomain>(domain), cbid, &name) ==
            CUPTI_SUCCESS &&
        name != nullptr && *name != 0)
      return name;
    name = nullptr;
    if (api_name_ == nullptr || api_name_(kind, cbid, &name) != CUPTI_SUCCESS) return nullptr;
    return name != nullptr && *name != 0 ? name : nullptr;
  }

 private:
  using ApiName = CUptiResult (*)(CUpti_ActivityKind, uint32_t, const char**);
  ApiName api_name_;
};

}  // namespace

MacaFunction classify(const char* text) {
  const std::string name = base_name(text);
  MacaFunction f = {};
  f.group = group_of(name);
  f.wait = wait_of(name);
  f.wanted = is_wanted(name, f.group);
  f.capture = has(name, "StreamBeginCapture") ? 1 : has(name, "StreamEndCapture") ? -1 : 0;
  if (f.wanted) f.number = number_of(name);
  return f;
}

MacaFunction maca_function(uint32_t domain, uint32_t cbid, const char* name) {
  const uint32_t row = domain - CUPTI_CB_DOMAIN_DRIVER_API;
  if (row > 1 || cbid >= kMostMacaCallbacks) return {};
  std::atomic<uint64_t>& place = g_functions[row][cbid];
  const uint64_t known = place.load(std::memory_order_acquire);
  if (known != 0) return unpacked(known);
  if (name == nullptr || *name == 0) return {};
  const MacaFunction f = classify(name);
  place.store(packed(f), std::memory_order_release);
  return f;
}

std::vector<MacaCallback> maca_callbacks(void* library) {
  std::vector<MacaCallback> chosen;
  const Names names(library);
  if (!names.known() || cupti().cuptiEnableCallback == nullptr) return chosen;
  for (const uint32_t domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
    for (uint32_t cbid = 1; cbid < kMostMacaCallbacks; ++cbid) {
      const char* name = names.of(domain, cbid);
      if (name == nullptr) continue;
      const std::string base = base_name(name);
      const bool capture = has(base, "StreamBeginCapture") || has(base, "StreamEndCapture");
      if (is_wanted(base, group_of(base)) || capture) chosen.push_back({domain, cbid});
    }
  }
  return chosen;
}

}  // namespace warpsight
