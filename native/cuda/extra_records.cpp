#include "cuda/extra_records.h"

#include <string_view>

#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint16_t kWholeGraph = 1;            // Kernel.flags
constexpr uint8_t kUnifiedMemoryTransfer = 2;  // Memcpy.flags: a migration without a call

struct NamedKinds {
  const char* name;
  std::vector<CUpti_ActivityKind> kinds;
  bool by_default;
};

const std::vector<NamedKinds>& named_kinds() {
  // Waits, events and allocations come from the calls (derived_rows.h) unless CUPTI's records are requested.
  static const auto* const kinds = new std::vector<NamedKinds>{
      {"kernel", {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL}, true},
      {"memcpy", {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2}, true},
      {"memset", {CUPTI_ACTIVITY_KIND_MEMSET}, true},
      {"sync", {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION}, false},
      {"event", {CUPTI_ACTIVITY_KIND_CUDA_EVENT}, false},
      {"memory", {CUPTI_ACTIVITY_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY_POOL}, false},
      {"overhead", {CUPTI_ACTIVITY_KIND_OVERHEAD}, false},
      {"unified_memory", {CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER}, false},
      {"environment", {CUPTI_ACTIVITY_KIND_ENVIRONMENT}, false},
      {"jit", {CUPTI_ACTIVITY_KIND_JIT}, false},
      {"device_graph", {}, false},  // no kind that can be enabled: see enable_device_graphs
      // CUPTI provides a call's id only with its own record of the call, which is discarded.
      {"external",
       {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER},
       false},
  };
  return *kinds;
}

bool needs_no_activity(const std::string& name) {
  for (const char* other : {"launch", "api", "graph", "nvtx", "marker", "sample", "stack", "counter", "op",
                            "thread", "openacc", "openmp"}) {
    if (name == other) return true;
  }
  return false;
}

void counter(uint64_t time, double value, const char* name, const char* unit, uint32_t device) {
  Counter row = {};
  row.time = time;
  row.value = value;
  row.name = intern_c(name);
  row.unit = intern_c(unit);
  row.device = static_cast<int32_t>(device);
  row.source = 4;
  write(row, OnFull::wait);
}

void unified_memory_transfer(const CUpti_ActivityUnifiedMemoryCounter2& u, CUpti_ActivityMemcpyKind kind) {
  Memcpy row = {};
  row.start = u.start;
  row.end = u.end;
  row.bytes = u.value;
  row.stream = u.streamId;
  const bool from_host = kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
             to_host = kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  row.source_device = from_host ? 65535 : static_cast<uint16_t>(u.srcId);
  row.destination_device = to_host ? 65535 : static_cast<uint16_t>(u.dstId);
  row.device = from_host ? row.destination_device : row.source_device;
  row.kind = static_cast<uint8_t>(kind);
  row.source_kind = row.destination_kind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  row.flags = kUnifiedMemoryTransfer;
  row.copies = 1;
  write(row, OnFull::wait);
}

void unified_memory(const CUpti_ActivityUnifiedMemoryCounter2& u) {
  switch (u.counterKind) {
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD:
      return unified_memory_transfer(u, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH:
      return unified_memory_transfer(u, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD:
      return unified_memory_transfer(u, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT:
      return counter(u.start, 1, "unified memory: CPU page fault", "faults", u.srcId);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT:
      return counter(u.start, static_cast<double>(u.value), "unified memory: GPU page fault", "faults",
                     u.srcId);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING:
      return counter(u.start, 1, "unified memory: thrashing", "events", u.srcId);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING:
      return counter(u.start, 1, "unified memory: throttling", "events", u.srcId);
    default:
      return counter(u.start, 1, "unified memory: remote map", "events", u.srcId);
  }
}

void environment(const CUpti_ActivityEnvironment& e) {
  switch (e.environmentKind) {
    case CUPTI_ACTIVITY_ENVIRONMENT_SPEED:
      counter(e.timestamp, e.data.speed.smClock, "SM clock", "MHz", e.deviceId);
      counter(e.timestamp, e.data.speed.memoryClock, "memory clock", "MHz", e.deviceId);
      return counter(e.timestamp, e.data.speed.clocksThrottleReasons, "throttle reasons", "bits", e.deviceId);
    case CUPTI_ACTIVITY_ENVIRONMENT_TEMPERATURE:
      return counter(e.timestamp, e.data.temperature.gpuTemperature, "temperature", "C", e.deviceId);
    case CUPTI_ACTIVITY_ENVIRONMENT_POWER:
      return counter(e.timestamp, e.data.power.power / 1000.0, "power", "W", e.deviceId);
    case CUPTI_ACTIVITY_ENVIRONMENT_COOLING:
      return counter(e.timestamp, e.data.cooling.fanSpeed, "fan", "%", e.deviceId);
    default:
      return;
  }
}

void jit(const CUpti_ActivityJit& j) {
  Build row = {};
  row.start = j.start;
  row.duration = j.end - j.start;
  row.program =
      intern_c(j.jitEntryType == CUPTI_ACTIVITY_JIT_ENTRY_PTX_TO_CUBIN ? "PTX to cubin" : "NVVM IR to PTX");
  row.options =
      intern_c(j.jitOperationType == CUPTI_ACTIVITY_JIT_OPERATION_COMPILE      ? "compile"
               : j.jitOperationType == CUPTI_ACTIVITY_JIT_OPERATION_CACHE_LOAD ? "load from the cache"
                                                                               : "store in the cache");
  row.device = j.deviceId;
  write(row, OnFull::wait);
}

// No host call launched it, so it has no correlation.
void device_graph(const CUpti_ActivityDeviceGraphTrace& g) {
  Kernel row = {};
  row.start = g.start;
  row.end = g.end;
  row.name = intern_c(g.deviceLaunchMode == CUPTI_DEVICE_GRAPH_LAUNCH_MODE_FIRE_AND_FORGET
                          ? "graph launched on the device (fire and forget)"
                      : g.deviceLaunchMode == CUPTI_DEVICE_GRAPH_LAUNCH_MODE_TAIL
                          ? "graph launched on the device (tail)"
                      : g.deviceLaunchMode == CUPTI_DEVICE_GRAPH_LAUNCH_MODE_FIRE_AND_FORGET_AS_SIBLING
                          ? "graph launched on the device (sibling)"
                          : "graph launched on the device");
  row.context = g.contextId;
  row.stream = static_cast<uint32_t>(g.streamId);
  row.graph = g.graphId;
  row.device = static_cast<uint16_t>(g.deviceId);
  row.flags = kWholeGraph;
  write(row, OnFull::wait);
}

void external_id(const CUpti_ActivityExternalCorrelation& e) {
  ExternalId row = {};
  row.external_id = e.externalId;
  row.correlation = e.correlationId;
  row.kind = e.externalKind;
  write(row, OnFull::wait);
}

}  // namespace

KindSelection select_kinds(const std::vector<std::string>& names) {
  KindSelection selection = {};
  // Definitions are always recorded: rows refer to them.
  selection.kinds = {CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM};
  for (const auto& named : named_kinds()) {
    bool wanted = names.empty() && named.by_default;
    for (const auto& name : names) wanted |= name == named.name;
    if (!wanted) continue;
    selection.kinds.insert(selection.kinds.end(), named.kinds.begin(), named.kinds.end());
    selection.unified_memory |= std::string_view(named.name) == "unified_memory";
    selection.device_graphs |= std::string_view(named.name) == "device_graph";
  }
  for (const auto& name : names) {
    bool found = needs_no_activity(name);
    for (const auto& named : named_kinds()) found |= name == named.name;
    if (!found) selection.refused.push_back(name);
  }
  return selection;
}

std::string configure_unified_memory() {
  if (cupti().cuptiActivityConfigureUnifiedMemoryCounter == nullptr) return "this CUPTI has no such counters";
  CUpti_ActivityUnifiedMemoryCounterConfig config[5];
  const CUpti_ActivityUnifiedMemoryCounterKind kinds[] = {
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT};
  for (int i = 0; i < 5; ++i) {
    config[i] = {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE, kinds[i], 0, 1};
  }
  const CUptiResult result = cupti().cuptiActivityConfigureUnifiedMemoryCounter(config, 5);
  return result == CUPTI_SUCCESS ? "" : result_name(result);
}

std::string enable_device_graphs(bool graph_level) {
  if (!graph_level) return "needs --graph graph";
  if (cupti().cuptiActivityEnableDeviceGraph == nullptr) return "this CUPTI has no such records";
  const CUptiResult result = cupti().cuptiActivityEnableDeviceGraph(1);
  return result == CUPTI_SUCCESS ? "" : result_name(result);
}

bool write_extra_record(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      unified_memory(*reinterpret_cast<const CUpti_ActivityUnifiedMemoryCounter2*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_ENVIRONMENT:
      environment(*reinterpret_cast<const CUpti_ActivityEnvironment*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_JIT:
      jit(*reinterpret_cast<const CUpti_ActivityJit*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE:
      device_graph(*reinterpret_cast<const CUpti_ActivityDeviceGraphTrace*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      external_id(*reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return true;
    default:
      return false;
  }
}

}  // namespace warpsight
