#include "cuda/derived_rows.h"

#include <atomic>
#include <cstring>

#include "cuda/functions.h"

namespace warpsight {
namespace {

constexpr uint32_t kEventSync = 1, kStreamWaitEvent = 2, kStreamSync = 3, kContextSync = 4;
constexpr uint32_t kNoStream = ~0u;
constexpr uint8_t kAllocate = 1, kFree = 2;
constexpr uint16_t kNoDevice = 65535;

std::atomic<RecordedByCupti> g_recorded{
    {false, false, false, false}};  // set when kinds are enabled, before callbacks

bool named(const ApiRule& rule, const char* part) { return strstr(rule.name, part) != nullptr; }

// Event handles are pointers; rows have 32 bits for an id, and the whole handle beside it.
uint32_t event_id(uint64_t handle) { return static_cast<uint32_t>(handle >> 4 ^ handle >> 36); }

uint32_t stream_id(const CUpti_CallbackData& call, uint64_t handle) {
  uint32_t id = kNoStream;
  if (cupti().cuptiGetStreamId == nullptr || call.context == nullptr) return id;
  const auto stream = reinterpret_cast<CUstream>(handle);
  return cupti().cuptiGetStreamId(call.context, stream, &id) == CUPTI_SUCCESS ? id : kNoStream;
}

uint64_t argument(const CUpti_CallbackData& call, size_t offset) {
  uint64_t value = 0;
  if (call.functionParams != nullptr) {
    memcpy(&value, static_cast<const char*>(call.functionParams) + offset, sizeof value);
  }
  return value;
}

void write_sync(const ApiRule& rule, const CUpti_CallbackData& call, const Api& call_row, uint32_t type,
                uint64_t stream) {
  Sync row = {};
  row.start = call_row.start;
  row.end = call_row.start + call_row.duration;
  row.correlation = call_row.correlation;
  row.context = call.contextUid;
  row.type = type;
  row.result = call_row.result;
  row.stream = type == kStreamSync || type == kStreamWaitEvent ? stream_id(call, stream) : kNoStream;
  if (rule.group == CallGroup::event || type == kEventSync) {
    row.event = event_id(call_row.object);
    row.event_sync = call_row.object;
  }
  write(row);
}

void write_event(const ApiRule& rule, const CUpti_CallbackData& call, const Api& call_row) {
  if (named(rule, "WaitEvent")) {  // (stream, event, flags)
    write_sync(rule, call, call_row, kStreamWaitEvent, argument(call, 0));
    return;
  }
  if (call_row.result != 0 || !named(rule, "Record")) return;
  Event row = {};
  row.event = event_id(call_row.object);
  row.event_sync = call_row.object;
  row.correlation = call_row.correlation;
  row.context = call.contextUid;
  row.stream = stream_id(call, argument(call, rule.object_offset + sizeof(void*)));  // (event, stream)
  write(row);
}

uint8_t memory_kind(const ApiRule& rule) {
  if (named(rule, "Host")) return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  return named(rule, "Managed") ? CUPTI_ACTIVITY_MEMORY_KIND_MANAGED : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
}

void write_memory(const ApiRule& rule, const CUpti_CallbackData& call, const Api& call_row) {
  if (call_row.result != 0 || call_row.object == 0) return;
  Memory row = {};
  row.time = call_row.start + call_row.duration;
  row.address = call_row.object;
  row.bytes = call_row.bytes;
  row.correlation = call_row.correlation;
  row.context = call.contextUid;
  row.stream = kNoStream;
  row.stack = call_row.stack;
  row.operation = named(rule, "Free") ? kFree : kAllocate;
  row.kind = memory_kind(rule);
  row.allocator = intern_c(rule.domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "CUDA runtime" : "CUDA driver");
  uint32_t device = kNoDevice;
  if (cupti().cuptiGetDeviceId != nullptr && call.context != nullptr) {
    if (cupti().cuptiGetDeviceId(call.context, &device) != CUPTI_SUCCESS) device = kNoDevice;
  }
  row.device = static_cast<uint16_t>(device);
  write(row);
}

}  // namespace

void set_recorded_by_cupti(RecordedByCupti recorded) {
  g_recorded.store(recorded, std::memory_order_relaxed);
}

void write_derived(const ApiRule& rule, const CUpti_CallbackData& call, const Api& row) {
  const RecordedByCupti recorded = g_recorded.load(std::memory_order_relaxed);
  switch (rule.group) {
    case CallGroup::sync:
      if (recorded.sync) return;
      if (named(rule, "EventSync")) return write_sync(rule, call, row, kEventSync, 0);
      if (named(rule, "StreamSync")) return write_sync(rule, call, row, kStreamSync, row.object);
      return write_sync(rule, call, row, kContextSync, 0);
    case CallGroup::event:
      if (!(named(rule, "WaitEvent") ? recorded.sync : recorded.event)) write_event(rule, call, row);
      return;
    case CallGroup::memory:
      if (!recorded.memory) write_memory(rule, call, row);
      return;
    default:
      return;
  }
}

}  // namespace warpsight
