// A stand-in for libmcpti: activity records of API version 18 with the sizes and offsets that public code
// found on real hardware, and callbacks. `-DWITHOUT_NAME` leaves a function out. It ends the program with
// exit code 70 when the recorder breaks a rule, and, like the real one, records nothing for those who come
// after the first context.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "hooks.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kInvalidParameter = 1, kMaximumReached = 12, kManySubscribers = 39;
constexpr uint32_t kMemcpy = 1, kMemset = 2, kRuntime = 5, kConcurrentKernel = 10;

struct Kernel {
  uint32_t kind;
  uint8_t cache, shared_config;
  uint16_t registers;
  uint32_t partition_asked, partition_used;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t shared_static, shared_dynamic;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_asked, carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t shared_limit, graph;
  void* policy;
  uint32_t channel, channel_type, cluster[3], cluster_policy;
  uint64_t local_total_64;
};
static_assert(sizeof(Kernel) == 200 && offsetof(Kernel, name) == 104 && offsetof(Kernel, graph_node) == 144,
              "MACA 3.8's kernel record");

struct Copy {
  uint32_t kind;
  uint8_t copy_kind, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type, padding2;
};
static_assert(sizeof(Copy) == 88, "MACA 3.8's copy record");

struct Set {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type, padding2;
};
static_assert(sizeof(Set) == 88, "MACA 3.8's set record");

using Request = void (*)(uint8_t**, size_t*, size_t*);
using Complete = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
using Callback = void (*)(void*, uint32_t, uint32_t, const void*);

std::mutex g_lock;  // protects everything below; never held while the recorder is called
Request g_request = nullptr;
Complete g_complete = nullptr;
Callback g_callback = nullptr;
void* g_userdata = nullptr;
std::set<uint32_t> g_kinds;
std::set<std::pair<uint32_t, uint32_t>> g_enabled;  // (domain, id); id 0: the whole domain
uint8_t* g_buffer = nullptr;
size_t g_size = 0, g_used = 0, g_most = 0, g_records = 0, g_dropped = 0;
bool g_drop_told = false;
long g_kernels = 0;

[[noreturn]] void violation(const char* rule) {
  fprintf(stderr, "standin: MCPTI rule broken: %s\n", rule);
  _Exit(70);
}

size_t size_of(uint32_t kind) { return kind == kConcurrentKernel ? sizeof(Kernel) : sizeof(Copy); }

void hand_over() {
  uint8_t* memory = nullptr;
  size_t size = 0, used = 0;
  Complete complete = nullptr;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    if (g_buffer == nullptr || g_used == 0) return;
    memory = g_buffer, size = g_size, used = g_used, complete = g_complete;
    g_buffer = nullptr;
    g_used = g_records = 0;
  }
  if (complete != nullptr) complete(nullptr, 7, memory, size, used);
}

void append(const void* record, uint32_t kind) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    Request request = nullptr;
    {
      std::lock_guard<std::mutex> guard(g_lock);
      if (g_kinds.count(kind) == 0 || g_request == nullptr) return;
      const size_t bytes = size_of(kind);
      if (g_buffer != nullptr && g_used + bytes <= g_size && (g_most == 0 || g_records < g_most)) {
        memcpy(g_buffer + g_used, record, bytes);
        g_used += bytes;
        ++g_records;
        return;
      }
      if (g_buffer == nullptr) request = g_request;
    }
    if (request == nullptr) {
      hand_over();
      continue;
    }
    uint8_t* memory = nullptr;
    size_t size = 0, most = 0;
    request(&memory, &size, &most);
    std::lock_guard<std::mutex> guard(g_lock);
    if (memory == nullptr) {
      ++g_dropped;
      return;
    }
    g_buffer = memory, g_size = size, g_most = most;
  }
}

void on_kernel(const Work& work) {
  Kernel k = {};
  k.kind = kConcurrentKernel;
  k.registers = 40;
  const long every = standin_option("zero_every", 0);
  if (every == 0 || ++g_kernels % every != 0) k.start = work.start, k.end = k.completed = work.end;
  const long nonsense = standin_option("nonsense_every", 0);
  if (nonsense != 0 && ++g_kernels % nonsense == 0) k.end = k.start - 1;
  k.context = 1;
  k.stream = work.stream;
  k.grid[0] = static_cast<int32_t>(work.grid.x), k.grid[1] = static_cast<int32_t>(work.grid.y);
  k.grid[2] = static_cast<int32_t>(work.grid.z);
  k.block[0] = static_cast<int32_t>(work.block.x), k.block[1] = static_cast<int32_t>(work.block.y);
  k.block[2] = static_cast<int32_t>(work.block.z);
  k.shared_dynamic = 256;
  k.correlation = work.correlation;
  k.name = work.name;
  k.graph_node = work.graph_node;
  k.graph = work.graph_node != 0 ? 3 : 0;
  append(&k, kConcurrentKernel);
}

void on_copy(const Work& work) {
  Copy c = {};
  c.kind = kMemcpy;
  c.copy_kind = work.copy_kind;
  c.bytes = work.bytes;
  c.start = work.start;
  c.end = work.end;
  c.context = 1;
  c.stream = work.stream;
  c.correlation = work.correlation;
  append(&c, kMemcpy);
}

void on_set(const Work& work) {
  Set s = {};
  s.kind = kMemset;
  s.value = work.value;
  s.bytes = work.bytes;
  s.start = work.start;
  s.end = work.end;
  s.context = 1;
  s.stream = work.stream;
  s.correlation = work.correlation;
  append(&s, kMemset);
}

void on_call(uint32_t domain, uint32_t id, const CallData* data) {
  Callback callback = nullptr;
  void* userdata = nullptr;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    if (g_enabled.count({domain, id}) == 0 && g_enabled.count({domain, 0}) == 0) return;
    callback = g_callback, userdata = g_userdata;
  }
  if (callback != nullptr) callback(userdata, domain, id, data);
}

}  // namespace

EXPORT int mcptiGetVersion(uint32_t* version) {
  *version = static_cast<uint32_t>(standin_option("version", 18));
  return kSuccess;
}

EXPORT int mcptiActivityRegisterCallbacks(Request request, Complete complete) {
  standin_hooks.call = on_call;
  if (standin_context()) return kSuccess;  // and nothing will ever come
  std::lock_guard<std::mutex> guard(g_lock);
  g_request = request;
  g_complete = complete;
  standin_hooks.kernel = on_kernel;
  standin_hooks.copy = on_copy;
  standin_hooks.set = on_set;
  return kSuccess;
}

EXPORT int mcptiActivityEnable(uint32_t kind) {
  if (kind != kConcurrentKernel && kind != kMemcpy && kind != kMemset) return kInvalidParameter;
  std::lock_guard<std::mutex> guard(g_lock);
  g_kinds.insert(kind);
  return kSuccess;
}
EXPORT int mcptiActivityDisable(uint32_t kind) {
  std::lock_guard<std::mutex> guard(g_lock);
  g_kinds.erase(kind);
  return kSuccess;
}
EXPORT int mcptiActivityFlushAll(uint32_t) { return hand_over(), kSuccess; }

#ifndef WITHOUT_NEXT_RECORD
EXPORT int mcptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  auto* last = static_cast<uint8_t*>(*record);
  uint8_t* next = buffer;
  if (last != nullptr) {
    uint32_t kind = 0;
    memcpy(&kind, last, sizeof kind);
    next = last + size_of(kind);
  }
  if (next >= buffer + valid) return kMaximumReached;
  *record = next;
  return kSuccess;
}
#endif

EXPORT int mcptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  std::lock_guard<std::mutex> guard(g_lock);
  *dropped = g_dropped;
  g_dropped = 0;
  if (!g_drop_told) *dropped += static_cast<size_t>(standin_option("drop", 0));
  g_drop_told = true;
  return kSuccess;
}

#ifndef WITHOUT_CALLBACKS
EXPORT int mcptiSubscribe(void** handle, Callback callback, void* userdata) {
  static long attempts = 0;
  std::lock_guard<std::mutex> guard(g_lock);
  if (attempts++ < standin_option("refuse_subscribe", 0) || g_callback != nullptr) return kManySubscribers;
  g_callback = callback;
  g_userdata = userdata;
  *handle = &g_callback;
  return kSuccess;
}
EXPORT int mcptiUnsubscribe(void*) {
  std::lock_guard<std::mutex> guard(g_lock);
  g_callback = nullptr;
  g_enabled.clear();
  return kSuccess;
}
EXPORT int mcptiEnableDomain(uint32_t on, void* handle, uint32_t domain) {
  if (handle != &g_callback) violation("a handle that nobody was given");
  std::lock_guard<std::mutex> guard(g_lock);
  on != 0 ? (void)g_enabled.insert({domain, 0}) : (void)g_enabled.erase({domain, 0});
  return kSuccess;
}
#endif

#ifndef WITHOUT_NAMES
EXPORT int mcptiEnableCallback(uint32_t on, void* handle, uint32_t domain, uint32_t id) {
  if (handle != &g_callback) violation("a handle that nobody was given");
  if (standin_function(id) == nullptr) return kInvalidParameter;
  std::lock_guard<std::mutex> guard(g_lock);
  on != 0 ? (void)g_enabled.insert({domain, id}) : (void)g_enabled.erase({domain, id});
  return kSuccess;
}
EXPORT int mcptiActivityGetApiName(uint32_t kind, uint32_t id, const char** name) {
  *name = kind == kRuntime ? standin_function(id) : nullptr;
  return *name != nullptr ? kSuccess : kInvalidParameter;
}
#endif

#ifndef WITHOUT_CLOCK
EXPORT int mcptiGetTimestamp(uint64_t* time) { return *time = standin_clock(), kSuccess; }
#endif

EXPORT int mcptiGetResultString(int result, const char** text) {
  *text = result == kManySubscribers ? "MCPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "MCPTI_ERROR_OTHER";
  return kSuccess;
}
