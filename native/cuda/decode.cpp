#include "cuda/decode.h"

#include <cstring>
#include <string>

#include "cuda/extra_records.h"
#include "cuda/functions.h"
#include "cuda/machine.h"
#include "cuda/range_metrics.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint32_t kNotReady = 600;  // CUDA_ERROR_NOT_READY: a query that found work still running, a poll
constexpr uint32_t kNotApplicable = CUPTI_SYNCHRONIZATION_INVALID_VALUE;

template <class Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

uint32_t id_or_zero(uint32_t value) { return value == kNotApplicable ? 0 : value; }

Shape shape_of(const CUpti_ActivityKernel10& k) {
  Shape shape = {};
  shape.grid_x = k.gridX;
  shape.grid_y = k.gridY;
  shape.grid_z = k.gridZ;
  shape.block_x = k.blockX;
  shape.block_y = k.blockY;
  shape.block_z = k.blockZ;
  shape.cluster_x = k.clusterX;
  shape.cluster_y = k.clusterY;
  shape.cluster_z = k.clusterZ;
  shape.registers = k.registersPerThread;
  shape.shared_static = static_cast<uint32_t>(k.staticSharedMemory);
  shape.shared_dynamic = static_cast<uint32_t>(k.dynamicSharedMemory);
  shape.local_per_thread = k.localMemoryPerThread;
  shape.launch_type = k.launchType;
  shape.shared_config = k.sharedMemoryExecuted;
  return shape;
}

}  // namespace

void Decoder::begin_session(uint32_t cupti_version) {
  sizes_ = record_sizes(cupti_version);
  counters_ = {};
  last_context_ = 0;
}

void Decoder::decode(uint8_t* memory, size_t valid) {
  range_.refresh();
  CUpti_Activity* record = nullptr;
  if (profiler() == Profiler::mcpti) {
    read_mcpti_clock();
    fitted_ = copy_clock_fit(&fit_);
  }
  while (cupti().cuptiActivityGetNextRecord(memory, valid, &record) == CUPTI_SUCCESS) {
    // MCPTI 3.8 was seen to answer with pointers that lead elsewhere.
    if (static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - memory) >= valid) {
      ++counters_.senseless;
      break;
    }
    ++counters_.records;
    decode_record(record);
  }
}

void Decoder::decode_record(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return kernel(record);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return graph_launch(record);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return memcpy(record);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return memcpy_peer(record);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return memset(record);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return synchronization(record);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return event(record);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return this->memory(record);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      return memory_pool(record);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return overhead(record);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return write_device(as<CUpti_ActivityDevice5>(record));
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return write_context(as<CUpti_ActivityContext3>(record));
    case CUPTI_ACTIVITY_KIND_STREAM:
      return write_stream(as<CUpti_ActivityStream>(record));
    default:
      if (!write_extra_record(record)) ++counters_.unknown_kinds;
  }
}

void Decoder::note(uint32_t context, uint32_t device) {
  if (context == last_context_) return;
  last_context_ = context;
  note_context(context, device);
}

// Whether a record of MCPTI, whose layout is known of one version only, can be a kernel's.
bool Decoder::sensible(const CUpti_ActivityKernel10& k) {
  constexpr uint64_t kLongestNs = 86'400'000'000'000;  // a day
  const bool is = k.end >= k.start && k.end - k.start < kLongestNs && k.gridX > 0 && k.gridY > 0 &&
                  k.gridZ > 0 && k.blockX > 0 && k.blockY > 0 && k.blockZ > 0;
  if (!is) ++counters_.senseless;
  return is;
}

// CUPTI's Range Profiler launches a kernel of its own for each range.
static bool of_range_profiler(const CUpti_ActivityKernel10& k) {
  return (launches_measured() || ranges_measured()) && k.name != nullptr && strcmp(k.name, "WaitNs") == 0;
}

void Decoder::kernel(const CUpti_Activity* record) {
  const auto& k = as<CUpti_ActivityKernel10>(record);
  if (of_range_profiler(k)) return;
  if (!range_.inside(k.correlationId)) return;
  if (profiler() == Profiler::mcpti && !sensible(k)) return;
  ++counters_.kernels;
  note(k.contextId, k.deviceId);
  Kernel row = {};
  row.name = intern_c(k.name);
  if (kernels_filtered() && !kernel_wanted(row.name, k.name)) return;
  row.start = host_time(k.start);
  row.end = host_time(k.end);
  row.graph_node = k.graphNodeId;
  row.correlation = k.correlationId;
  row.shape = shapes_.id(shape_of(k));
  row.context = k.contextId;
  row.module = modules_.module_of(k.contextId, row.name, k.name, k.start);
  if (modules_.loaded_unheard()) ++counters_.unknown_modules;
  row.stream = k.streamId;
  row.graph = k.graphId;
  row.device = static_cast<uint16_t>(k.deviceId);
  row.queued = k.queued == CUPTI_TIMESTAMP_UNKNOWN ? 0 : host_time(k.queued);
  row.submitted = k.submitted == CUPTI_TIMESTAMP_UNKNOWN ? 0 : host_time(k.submitted);
  write(row, OnFull::wait);
}

void Decoder::graph_launch(const CUpti_Activity* record) {
  const auto& g = as<CUpti_ActivityGraphTrace>(record);
  if (!range_.inside(g.correlationId)) return;
  ++counters_.graph_launches;
  note(g.contextId, g.deviceId);
  Kernel row = {};
  row.start = host_time(g.start);
  row.end = host_time(g.end);
  row.correlation = g.correlationId;
  row.context = g.contextId;
  row.stream = g.streamId;
  row.graph = g.graphId;
  row.device = static_cast<uint16_t>(g.deviceId);
  row.flags = 1;
  write(row, OnFull::wait);
}

void Decoder::memcpy(const CUpti_Activity* record) {
  const auto& m = as<CUpti_ActivityMemcpy6>(record);
  if (!range_.inside(m.correlationId)) return;
  note(m.contextId, m.deviceId);
  Memcpy row = {};
  row.start = host_time(m.start);
  row.end = host_time(m.end);
  row.bytes = m.bytes;
  row.graph_node = m.graphNodeId;
  row.correlation = m.correlationId;
  row.context = m.contextId;
  row.stream = m.streamId;
  row.graph = m.graphId;
  row.device = static_cast<uint16_t>(m.deviceId);
  row.source_device = row.destination_device = 65535;
  row.kind = m.copyKind;
  row.source_kind = m.srcKind;
  row.destination_kind = m.dstKind;
  row.flags = m.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  row.copies = 1;
  if (WARPSIGHT_HAS(sizes_.memcpy, CUpti_ActivityMemcpy6, copyCount) && m.copyCount > 1) {
    row.copies = static_cast<uint32_t>(m.copyCount);
  }
  write(row, OnFull::wait);
}

void Decoder::memcpy_peer(const CUpti_Activity* record) {
  const auto& m = as<CUpti_ActivityMemcpyPtoP4>(record);
  if (!range_.inside(m.correlationId)) return;
  Memcpy row = {};
  row.start = host_time(m.start);
  row.end = host_time(m.end);
  row.bytes = m.bytes;
  row.graph_node = m.graphNodeId;
  row.correlation = m.correlationId;
  row.context = m.contextId;
  row.stream = m.streamId;
  row.graph = m.graphId;
  row.device = static_cast<uint16_t>(m.deviceId);
  row.source_device = static_cast<uint16_t>(m.srcDeviceId);
  row.destination_device = static_cast<uint16_t>(m.dstDeviceId);
  row.kind = m.copyKind;
  row.source_kind = m.srcKind;
  row.destination_kind = m.dstKind;
  row.flags = m.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  row.copies = 1;
  write(row, OnFull::wait);
}

void Decoder::memset(const CUpti_Activity* record) {
  const auto& m = as<CUpti_ActivityMemset4>(record);
  if (!range_.inside(m.correlationId)) return;
  note(m.contextId, m.deviceId);
  Memset row = {};
  row.start = host_time(m.start);
  row.end = host_time(m.end);
  row.bytes = m.bytes;
  row.graph_node = m.graphNodeId;
  row.correlation = m.correlationId;
  row.context = m.contextId;
  row.stream = m.streamId;
  row.graph = m.graphId;
  row.value = m.value;
  row.device = static_cast<uint16_t>(m.deviceId);
  row.memory_kind = static_cast<uint8_t>(m.memoryKind);
  row.flags = m.flags & CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  write(row, OnFull::wait);
}

void Decoder::synchronization(const CUpti_Activity* record) {
  const auto& s = as<CUpti_ActivitySynchronization2>(record);
  if (!range_.inside(s.correlationId)) return;
  Sync row = {};
  if (WARPSIGHT_HAS(sizes_.synchronization, CUpti_ActivitySynchronization2, returnValue)) {
    if (s.returnValue == kNotReady) return;
    row.result = static_cast<int32_t>(s.returnValue);
    row.event_sync = static_cast<uint32_t>(s.cudaEventSyncId) == kNotApplicable ? 0 : s.cudaEventSyncId;
  }
  if (s.start == 0 && s.end == 0) ++counters_.waits_without_times;
  row.start = host_time(s.start);
  row.end = host_time(s.end);
  row.correlation = s.correlationId;
  row.context = s.contextId;
  row.stream = s.streamId;
  row.event = id_or_zero(s.cudaEventId);
  row.type = static_cast<uint32_t>(s.type);
  write(row, OnFull::wait);
}

void Decoder::event(const CUpti_Activity* record) {
  const auto& e = as<CUpti_ActivityCudaEvent2>(record);
  if (!range_.inside(e.correlationId)) return;
  Event row = {};
  if (WARPSIGHT_HAS(sizes_.event, CUpti_ActivityCudaEvent2, cudaEventSyncId)) {
    row.time = e.deviceTimestamp;
    row.event_sync = e.cudaEventSyncId;
  }
  row.event = e.eventId;
  row.correlation = e.correlationId;
  row.context = e.contextId;
  row.stream = e.streamId;
  write(row, OnFull::wait);
}

void Decoder::memory(const CUpti_Activity* record) {
  const auto& m = as<CUpti_ActivityMemory4>(record);
  if (!range_.inside(m.correlationId)) return;
  Memory row = {};
  row.time = m.timestamp;
  row.address = m.address;
  row.bytes = m.bytes;
  row.correlation = m.correlationId;
  row.context = id_or_zero(m.contextId);
  row.stream = m.streamId;
  row.device = static_cast<uint16_t>(m.deviceId);
  row.operation = m.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE ? 2 : 1;
  row.kind = static_cast<uint8_t>(m.memoryKind);
  if (m.memoryPoolConfig.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID) {
    row.pool = m.memoryPoolConfig.address;
    if (m.memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL) {
      row.pool_size = m.memoryPoolConfig.pool.size;
      row.pool_used = m.memoryPoolConfig.utilizedSize;
    }
  }
  write(row, OnFull::wait);
}

void Decoder::memory_pool(const CUpti_Activity* record) {
  const auto& p = as<CUpti_ActivityMemoryPool3>(record);
  if (!range_.inside(p.correlationId)) return;
  Memory row = {};
  row.time = p.timestamp;
  row.pool = row.address = p.address;
  row.pool_size = p.size;
  if (WARPSIGHT_HAS(sizes_.pool, CUpti_ActivityMemoryPool3, utilizedSize)) row.pool_used = p.utilizedSize;
  row.correlation = p.correlationId;
  row.device = static_cast<uint16_t>(p.deviceId);
  switch (p.memoryPoolOperationType) {
    case CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED:
      row.operation = 5;
      break;
    case CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED:
      row.operation = 4;
      break;
    default:
      row.operation = 3;
  }
  write(row, OnFull::wait);
}

void Decoder::overhead(const CUpti_Activity* record) {
  const auto& o = as<CUpti_ActivityOverhead3>(record);
  Overhead row = {};
  row.start = o.start;
  row.end = o.end;
  row.kind = static_cast<uint32_t>(o.overheadKind);
  const bool of_thread =
      o.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD || o.objectKind == CUPTI_ACTIVITY_OBJECT_PROCESS;
  row.object = of_thread ? o.objectId.pt.threadId : o.objectId.dcs.streamId;
  if (WARPSIGHT_HAS(sizes_.overhead, CUpti_ActivityOverhead3, correlationId))
    row.correlation = o.correlationId;
  write(row, OnFull::wait);
}

void Decoder::report() {
  if (counters_.senseless != 0) {
    report_loss(profiler_source(), "these records make no sense where their fields are looked for",
                counters_.senseless);
    counters_.senseless = 0;
  }
  // Kernels, copies and sets without times are counted where their rows are read.
  if (counters_.waits_without_times == 0) return;
  report_loss(profiler_source(),
              std::string(profiler_name()) + " lost the timestamps of these waits (start and end are 0)",
              counters_.waits_without_times, Severity::lost, 0, 0, Sync::kKind);
  counters_.waits_without_times = 0;
}

}  // namespace warpsight
