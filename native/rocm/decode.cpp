#include "rocm/decode.h"

#include <atomic>

#include "ring/shape_cache.h"
#include "rocm/agents.h"
#include "rocm/calls.h"
#include "rocm/clock.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

constexpr uint8_t kToDevice = 1, kToHost = 2, kOnDevice = 8, kOnHost = 9,
                  kPeer = 10;         // CUpti_ActivityMemcpyKind
constexpr uint8_t kDeviceMemory = 3;  // CUpti_ActivityMemoryKind

// So far, for loss rows. Relaxed: counts, by which nothing else is published.
std::atomic<uint64_t> g_kernels{0}, g_dropped{0}, g_short{0}, g_nameless{0};
uint64_t g_dropped_told = 0, g_short_told = 0,
         g_nameless_told = 0;  // the recorder's thread

ShapeCache& shapes() {
  static thread_local ShapeCache cache;
  return cache;
}

void kernel(const DispatchRecord& record) {
  if (record.operation != kComplete) return;
  if (!WARPSIGHT_ROCM_HAS(record, DispatchRecord, info.grid)) {
    g_short.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  g_kernels.fetch_add(1, std::memory_order_relaxed);
  const Dispatched found = describe(record.info);
  if (kernels_filtered() && !kernel_wanted(found.name, found.text)) return;
  if (found.text == nullptr) g_nameless.fetch_add(1, std::memory_order_relaxed);
  Kernel row = {};
  row.start = to_monotonic(record.start);
  row.end = to_monotonic(record.end);
  row.name = found.name;
  row.module = found.module;
  row.shape = shapes().id(found.shape);
  row.correlation = static_cast<uint32_t>(record.correlation.internal);
  row.device = device_of(record.info.agent);
  row.context = context_of(row.device);
  const Told told = told_by(record.correlation.external);
  row.stream = told.ours ? told.stream : queue_stream(record.info.queue);
  note_stream(row.device, row.stream);
  write(row, OnFull::wait);
}

uint8_t kind_of(const CopyRecord& record) {
  switch (record.operation) {
    case kHostToDevice:
      return kToDevice;
    case kDeviceToHost:
      return kToHost;
    case kDeviceToDevice:
      return record.source_agent == record.destination_agent ? kOnDevice : kPeer;
    default:
      return kOnHost;
  }
}

void copy(const CopyRecord& record) {
  if (!WARPSIGHT_ROCM_HAS(record, CopyRecord, source_agent)) {
    g_short.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Memcpy row = {};
  row.start = to_monotonic(record.start);
  row.end = to_monotonic(record.end);
  if (WARPSIGHT_ROCM_HAS(record, CopyRecord, bytes)) row.bytes = record.bytes;
  row.correlation = static_cast<uint32_t>(record.correlation.internal);
  row.source_device = device_of(record.source_agent);
  row.destination_device = device_of(record.destination_agent);
  row.device = row.destination_device != kNoDevice ? row.destination_device : row.source_device;
  row.context = context_of(row.device);
  row.kind = kind_of(record);
  row.source_kind = row.source_device != kNoDevice ? kDeviceMemory : 0;
  row.destination_kind = row.destination_device != kNoDevice ? kDeviceMemory : 0;
  row.copies = 1;
  const Told told = told_by(record.correlation.external);
  row.stream = told.stream;
  row.flags = told.asynchronous ? 1 : 0;
  if (told.ours && row.device != kNoDevice) note_stream(row.device, row.stream);
  write(row, OnFull::wait);
}

void tell(const std::atomic<uint64_t>& counter, uint64_t* told, const char* cause, Severity severity) {
  const uint64_t count = counter.load(std::memory_order_relaxed);
  if (count > *told) report_loss("rocm", cause, count - *told, severity);
  *told = count;
}

}  // namespace

void on_records(ContextId, BufferId, RecordHeader** headers, size_t count, void*, uint64_t dropped) {
  if (arena() == nullptr) return;  // a forked child, or between two recordings
  for (size_t i = 0; i < count; ++i) {
    const RecordHeader& header = *headers[i];
    if (header.category != kTracingCategory || header.payload == nullptr) continue;
    if (header.kind == kKernelDispatch) kernel(*static_cast<const DispatchRecord*>(header.payload));
    if (header.kind == kMemoryCopy) copy(*static_cast<const CopyRecord*>(header.payload));
  }
  // The library relies on it for the buffer's lifetime.
  uint64_t before = g_dropped.load(std::memory_order_relaxed);
  while (before < dropped && !g_dropped.compare_exchange_weak(before, dropped, std::memory_order_relaxed)) {
  }
}

uint64_t kernels_decoded() { return g_kernels.load(std::memory_order_relaxed); }

void report_records() {
  tell(g_dropped, &g_dropped_told,
       "rocprofiler-sdk had no room for these records: they came faster than they were taken",
       Severity::lost);
  tell(g_short, &g_short_told,
       "records of this rocprofiler-sdk are shorter than the documented ones and were not read",
       Severity::lost);
  tell(g_nameless, &g_nameless_told,
       "the code of these kernels was loaded before the recorder was: they have no name", Severity::note);
}

}  // namespace warpsight::rocm
