// Activity kinds and buffers, with the sizes of the records of the asked-for version.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "standin.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace standin {
namespace {

struct ThreadBuffer {
  uint8_t* memory = nullptr;
  size_t size = 0, used = 0, most = 0, records = 0;
  std::vector<size_t> incomplete;  // offsets of records without timestamps yet
};

std::mutex g_lock;  // protects everything below; never held while the recorder is called
CUpti_BuffersCallbackRequestFunc g_request = nullptr;
CUpti_BuffersCallbackCompleteFunc g_complete = nullptr;
CUpti_TimestampCallbackFunc g_clock = nullptr;
std::set<int> g_kinds;
std::vector<ThreadBuffer*> g_buffers;
std::atomic<size_t> g_dropped{0};
std::atomic<long> g_kernels{0};
bool g_context = false,
     g_described = false;  // the device and the context are described once, not to each client
bool g_zeroed = false, g_drop_told = false;
std::atomic<bool> g_device_graphs{false};
std::atomic<unsigned> g_generation{0};  // a thread's buffer belongs to one attachment
thread_local ThreadBuffer* t_buffer = nullptr;
thread_local unsigned t_generation = 0;

uint32_t version() { return static_cast<uint32_t>(option("version", 130001)); }

size_t size_of(uint32_t kind) {
  const bool before_128 = version() < 26;
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return before_128 ? sizeof(CUpti_ActivityKernel9) : sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return before_128 ? sizeof(CUpti_ActivityMemcpy5) : sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return before_128 ? sizeof(CUpti_ActivitySynchronization) : sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE:
      return sizeof(CUpti_ActivityDeviceGraphTrace);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(CUpti_ActivityContext3);
    default:
      return 64;
  }
}

void check_zeroed(const uint8_t* memory, size_t size) {
  for (size_t i = 0; g_zeroed && i < size; ++i) {
    if (memory[i] != 0) violation("a buffer that is not zeroed");
  }
}

ThreadBuffer* thread_buffer() {
  if (t_buffer != nullptr && t_generation == g_generation.load()) return t_buffer;
  t_buffer = new ThreadBuffer;
  t_generation = g_generation.load();
  std::lock_guard<std::mutex> guard(g_lock);
  g_buffers.push_back(t_buffer);
  return t_buffer;
}

// Takes the memory out of the buffer, so that the callback can be made without the lock. `whole`: only if no
// record of it is incomplete.
void hand_over(ThreadBuffer* buffer, bool whole) {
  uint8_t* memory;
  size_t size, used;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    if (whole && !buffer->incomplete.empty()) return;
    memory = buffer->memory;
    size = buffer->size;
    used = buffer->used;
    buffer->memory = nullptr;
    buffer->used = buffer->size = buffer->records = 0;
    buffer->incomplete.clear();
  }
  if (memory != nullptr && g_complete != nullptr) g_complete(nullptr, 0, memory, size, used);
}

// Asks the recorder for a buffer; false when it gives none.
bool get_buffer(ThreadBuffer* buffer) {
  if (g_request == nullptr) return false;
  uint8_t* memory = nullptr;
  size_t size = 0, most = 0;
  g_request(&memory, &size, &most);
  if (memory == nullptr) {
    ++g_dropped;
    return false;
  }
  check_zeroed(memory, size);
  std::lock_guard<std::mutex> guard(g_lock);
  buffer->memory = memory;
  buffer->size = size;
  buffer->most = most == 0 ? ~size_t{0} : most;
  return true;
}

template <class Record>
void append(const Record& record, bool incomplete) {
  if (!kind_enabled(record.kind == CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE ? CUPTI_ACTIVITY_KIND_GRAPH_TRACE
                                                                          : record.kind))
    return;
  ThreadBuffer* buffer = thread_buffer();
  const size_t bytes = size_of(record.kind);
  for (;;) {
    bool full = false;
    {
      std::lock_guard<std::mutex> guard(g_lock);
      full = buffer->memory != nullptr &&
             (buffer->used + bytes > buffer->size || buffer->records >= buffer->most);
      if (buffer->memory != nullptr && !full) {
        memcpy(buffer->memory + buffer->used, &record, bytes < sizeof record ? bytes : sizeof record);
        if (incomplete) buffer->incomplete.push_back(buffer->used);
        buffer->used += bytes;
        ++buffer->records;
        return;
      }
    }
    if (full) {
      complete_everything();  // CUPTI waits for the GPU before it returns a full buffer
      hand_over(buffer, false);
    }
    if (!full && !get_buffer(buffer)) return;
  }
}

}  // namespace

uint64_t now() { return g_clock != nullptr ? g_clock() : 1; }

bool kind_enabled(CUpti_ActivityKind kind) {
  std::lock_guard<std::mutex> guard(g_lock);
  return g_kinds.count(kind) != 0;
}

void record_kernel(const char* name, uint32_t correlation, uint32_t stream, uint64_t graph_node) {
  CUpti_ActivityKernel10 k = {};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.registersPerThread = 32;
  k.contextId = 1;
  k.streamId = stream;
  k.gridX = 4, k.gridY = 1, k.gridZ = 1, k.blockX = 128, k.blockY = 1, k.blockZ = 1;
  k.correlationId = correlation;
  k.name = name;
  k.graphNodeId = graph_node;
  k.graphId = graph_node != 0 ? 9 : 0;
  const long every = option("zero_every", 0);
  const bool lost = every != 0 && ++g_kernels % every == 0;
  append(k, !lost);
  sample_launch(name);
  count_launch(name);
}

void record_copy(uint64_t bytes, uint32_t correlation, uint64_t graph_node) {
  CUpti_ActivityMemcpy6 m = {};
  m.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  m.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  m.bytes = bytes;
  m.start = now();
  m.end = m.start + 10;
  m.contextId = 1;
  m.streamId = 7;
  m.correlationId = correlation;
  m.graphNodeId = graph_node;
  m.copyCount = 3;
  append(m, false);
}

void record_set(uint64_t bytes, uint32_t correlation, uint64_t graph_node) {
  CUpti_ActivityMemset4 m = {};
  m.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  m.bytes = bytes;
  m.start = now();
  m.end = m.start + 10;
  m.contextId = 1;
  m.streamId = 7;
  m.correlationId = correlation;
  m.graphNodeId = graph_node;
  append(m, false);
}

void record_sync(uint32_t correlation, uint32_t result) {
  CUpti_ActivitySynchronization2 s = {};
  s.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  s.start = now();
  s.end = s.start + 5;
  s.correlationId = correlation;
  s.contextId = 1;
  s.streamId = s.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  s.cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  s.returnValue = result;
  append(s, false);
}

void record_graph_launch(uint32_t correlation) {
  CUpti_ActivityGraphTrace2 g = {};
  g.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  g.correlationId = correlation;
  g.start = now();
  g.end = g.start + 100;
  g.graphId = 9;
  g.contextId = 1;
  g.streamId = 7;
  append(g, false);
}

void record_device_graph() {
  if (!g_device_graphs) return;
  CUpti_ActivityDeviceGraphTrace g = {};
  g.kind = CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE;
  g.start = now();
  g.end = g.start + 100;
  g.graphId = 11;
  g.launcherGraphId = 9;
  g.deviceLaunchMode = CUPTI_DEVICE_GRAPH_LAUNCH_MODE_TAIL;
  g.contextId = 1;
  g.streamId = 7;
  append(g, false);
}

void record_external_id(uint32_t correlation, uint64_t id) {
  if (!kind_enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) || !kind_enabled(CUPTI_ACTIVITY_KIND_RUNTIME))
    return;
  CUpti_ActivityExternalCorrelation e = {};
  e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  e.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
  e.externalId = id;
  e.correlationId = correlation;
  append(e, false);
  CUpti_ActivityAPI a = {};
  a.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  a.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
  a.start = now();
  a.end = a.start + 10;
  a.correlationId = correlation;
  append(a, false);
}

void context_exists() {
  g_context = true;
  g_described = kind_enabled(CUPTI_ACTIVITY_KIND_CONTEXT);
  CUpti_ActivityDevice5 d = {};
  d.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  d.globalMemorySize = 1 << 30;
  d.globalMemoryBandwidth = 4000000;
  d.numMultiprocessors = 132;
  d.numThreadsPerWarp = 32;
  d.maxWarpsPerMultiprocessor = 64;
  d.computeCapabilityMajor = 9;
  d.name = "Stand-in GPU";
  append(d, false);
  CUpti_ActivityContext3 c = {};
  c.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  c.contextId = 1;
  c.nullStreamId = 7;
  append(c, false);
}

void complete_everything() {
  std::lock_guard<std::mutex> guard(g_lock);
  for (ThreadBuffer* buffer : g_buffers) {
    std::vector<size_t> stuck;  // what a stuck kernel holds up: itself and everything behind it
    for (const size_t offset : buffer->incomplete) {
      auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(buffer->memory + offset);
      const bool holds = kernel->name != nullptr && strncmp(kernel->name, kStuck, strlen(kStuck)) == 0;
      if (!stuck.empty() || (holds && anything_stuck())) {
        stuck.push_back(offset);
        continue;
      }
      kernel->start = now();
      kernel->end = kernel->start + 1000;
    }
    buffer->incomplete = stuck;
  }
}

// What cuptiFinalize leaves: nothing registered, nothing enabled; buffers still lent are never returned.
void reset_activity() {
  std::lock_guard<std::mutex> guard(g_lock);
  g_request = nullptr;
  g_complete = nullptr;
  g_clock = nullptr;
  g_kinds.clear();
  g_buffers.clear();
  g_zeroed = false;
  ++g_generation;
}

}  // namespace standin

using namespace standin;  // NOLINT

EXPORT CUptiResult cuptiActivityEnableDeviceGraph(uint8_t enable) {
  return g_device_graphs = enable != 0, CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (g_clock == nullptr && g_request != nullptr) violation("a kind enabled before the clock was registered");
  if (kind == CUPTI_ACTIVITY_KIND_ENVIRONMENT) return CUPTI_ERROR_NOT_COMPATIBLE;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    g_kinds.insert(kind);
  }
  if (kind == CUPTI_ACTIVITY_KIND_CONTEXT && g_context && !g_described) context_exists();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  note_use_of_contexts("cuptiActivityDisable");
  std::lock_guard<std::mutex> guard(g_lock);
  g_kinds.erase(kind);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  note_caller();
  if (flag == 0 && instructions_counted())
    violation("a flush while launches patch kernels: each holds the lock that the other waits for");
  usleep(static_cast<useconds_t>(option("slow_flush_ms", 0)) * 1000);
  std::vector<ThreadBuffer*> buffers;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    for (ThreadBuffer* buffer : g_buffers) {
      if (buffer->used != 0) buffers.push_back(buffer);
    }
  }
  for (ThreadBuffer* buffer : buffers) hand_over(buffer, flag == 0);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* next = *record == nullptr
                      ? buffer
                      : reinterpret_cast<uint8_t*>(*record) + size_of(static_cast<uint32_t>((*record)->kind));
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = g_dropped.exchange(0);
  if (!g_drop_told) {
    g_drop_told = true;
    *dropped += static_cast<size_t>(option("drop", 0));
  }
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                  CUpti_BuffersCallbackCompleteFunc complete) {
  std::lock_guard<std::mutex> guard(g_lock);
  g_request = request;
  g_complete = complete;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t*, void* value) {
  if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
    g_zeroed = *static_cast<uint8_t*>(value) != 0;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  g_clock = clock;
  return CUPTI_SUCCESS;
}
