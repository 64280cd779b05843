#include "cuda/activity.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "cuda/api_rules.h"
#include "cuda/buffers.h"
#include "cuda/derived_rows.h"
#include "cuda/extra_records.h"
#include "cuda/functions.h"
#include "cuda/range_metrics.h"
#include "cuda/resources.h"
#include "cuda/sass_counts.h"
#include "cuda/versions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr size_t kPoolBytes = 128 << 20;  // WARPSIGHT_BUFFER_POOL overrides it

std::vector<CUpti_ActivityKind>& enabled_kinds() {
  static auto* const kinds = new std::vector<CUpti_ActivityKind>;
  return *kinds;
}

uint64_t CUPTIAPI timestamp() { return now_ns(); }

template <class T>
void set_attribute(CUpti_ActivityAttribute attribute, T value, const char* name) {
  size_t size = sizeof value;
  const CUptiResult result = cupti().cuptiActivitySetAttribute(attribute, &size, &value);
  if (result == CUPTI_SUCCESS) return;
  report_loss("cupti", std::string(name) + " could not be set: " + result_name(result), 1, Severity::note);
}

size_t pool_bytes() {
  const char* text = getenv("WARPSIGHT_BUFFER_POOL");
  const long long bytes = text != nullptr ? atoll(text) : 0;
  return bytes > 0 ? static_cast<size_t>(bytes) : kPoolBytes;
}

const char* kind_name(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return "kernels";
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return "copies";
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return "peer copies";
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return "sets";
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return "synchronisation";
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return "events";
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return "allocations";
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      return "memory pools";
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return "overhead";
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return "devices";
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return "contexts";
    case CUPTI_ACTIVITY_KIND_STREAM:
      return "streams";
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return "unified memory";
    case CUPTI_ACTIVITY_KIND_ENVIRONMENT:
      return "environment";
    case CUPTI_ACTIVITY_KIND_JIT:
      return "jit";
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return "external ids";
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return "graph launches";
    default:
      return "records";
  }
}

// Exact counts require kernels to run one at a time: with concurrent kernels, CUPTI counts 0.
void choose_kernel_kind(std::vector<CUpti_ActivityKind>* kinds) {
  if (instructions_counted()) {
    kinds->erase(std::remove(kinds->begin(), kinds->end(), CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                 kinds->end());
    kinds->push_back(CUPTI_ACTIVITY_KIND_KERNEL);
    report_loss("cuda",
                "kernels ran one at a time and many times slower, because their instructions were counted: "
                "their times are not the program's",
                1, Severity::note);
  } else if (launches_measured()) {
    report_loss("cuda",
                "kernels ran one at a time, because each was measured; instructions that CUPTI adds to "
                "record their times are among what was measured",
                1, Severity::note);
  }
}

void append(std::string* list, const std::string& item) { *list += (list->empty() ? "" : ", ") + item; }

}  // namespace

void set_up_activity() {
  if (cupti().cuptiActivityRegisterTimestampCallback == nullptr) {
    report_loss("cupti",
                "this CUPTI cannot use our clock: GPU times follow the wall clock, not CLOCK_MONOTONIC");
  } else {
    cupti().cuptiActivityRegisterTimestampCallback(timestamp);
  }
  if (cupti().cuptiSetThreadIdType != nullptr)
    cupti().cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  configure_buffers(settings().buffer_bytes, pool_bytes(), cupti().version < kCupti129);
  set_attribute<uint8_t>(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1, "zeroed buffers");
  if (settings().device_buffer_bytes != 0) {
    set_attribute<size_t>(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, settings().device_buffer_bytes,
                          "device buffer size");
  }
  const CUptiResult result = cupti().cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
  if (result == CUPTI_SUCCESS) return;
  report_loss("cupti", std::string("no GPU work recorded: CUPTI refused our buffers: ") + result_name(result),
              1, Severity::ended);
}

void enable_kinds(bool graph_level) {
  KindSelection selection = select_kinds(settings().trace);
  choose_kernel_kind(&selection.kinds);
  std::string refused;
  for (const auto& name : selection.refused) append(&refused, name);
  if (selection.unified_memory) {
    const std::string why = configure_unified_memory();
    if (!why.empty()) append(&refused, "unified_memory (" + why + ")");
  }
  if (selection.device_graphs) {
    const std::string why = enable_device_graphs(graph_level);
    if (!why.empty()) append(&refused, "device_graph (" + why + ")");
  }
  if (graph_level) selection.kinds.push_back(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  if (cupti().cuptiActivityEnableAllSyncRecords != nullptr) cupti().cuptiActivityEnableAllSyncRecords(0);
  enabled_kinds().clear();
  RecordedByCupti recorded = {};
  for (const auto kind : selection.kinds) {
    const CUptiResult result = cupti().cuptiActivityEnable(kind);
    if (result == CUPTI_SUCCESS) {
      enabled_kinds().push_back(kind);
      recorded.sync |= kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
      recorded.event |= kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT;
      recorded.memory |= kind == CUPTI_ACTIVITY_KIND_MEMORY2;
    } else {
      append(&refused, std::string(kind_name(kind)) + " (" + result_name(result) + ")");
    }
  }
  set_recorded_by_cupti(recorded);
  if (!refused.empty()) report_loss("cupti", "not recorded, because this CUPTI or GPU cannot: " + refused);
}

void disable_kinds() {
  for (const auto kind : enabled_kinds()) cupti().cuptiActivityDisable(kind);
  enabled_kinds().clear();
}

void enable_callbacks(CUpti_SubscriberHandle subscriber, bool enable) {
  const uint32_t on = enable ? 1 : 0;
  for (const auto& call : select_calls(settings().api)) {
    cupti().cuptiEnableCallback(on, subscriber, static_cast<CUpti_CallbackDomain>(call.domain), call.cbid);
  }
  const ResourceCallbacks resources = resource_callbacks();
  for (size_t i = 0; i < resources.count; ++i) {
    cupti().cuptiEnableCallback(on, subscriber, CUPTI_CB_DOMAIN_RESOURCE, resources.ids[i]);
  }
}

void enable_range_callbacks(CUpti_SubscriberHandle subscriber, bool enable) {
  const uint32_t on = enable ? 1 : 0;
  for (const auto& call : range_calls()) {
    cupti().cuptiEnableCallback(on, subscriber, static_cast<CUpti_CallbackDomain>(call.domain), call.cbid);
  }
  const ResourceCallbacks resources = resource_callbacks();
  for (size_t i = 0; i < resources.count; ++i) {
    cupti().cuptiEnableCallback(on, subscriber, CUPTI_CB_DOMAIN_RESOURCE, resources.ids[i]);
  }
}

}  // namespace warpsight
