#include "cuda/derived_rows.h"

#include <atomic>
#include <cstring>

#include "cuda/memory_rows.h"
#include "cuda/stream_ids.h"

namespace warpsight {
namespace {

constexpr uint32_t kEventSync = 1, kStreamWaitEvent = 2, kStreamSync = 3, kContextSync = 4;

std::atomic<RecordedByCupti> g_recorded{
    {false, false, false, false}};  // set when kinds are enabled, before callbacks

bool named(const ApiRule& rule, const char* part) { return strstr(rule.name, part) != nullptr; }

// Event handles are pointers; rows have 32 bits for an id, and a separate field for the whole handle.
uint32_t event_id(uint64_t handle) { return static_cast<uint32_t>(handle >> 4 ^ handle >> 36); }

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
  row.stream = type == kStreamSync || type == kStreamWaitEvent ? stream_id(call, stream) : kNoStreamId;
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
      if (!recorded.memory) write_memory_row(rule, call, row);
      return;
    default:
      return;
  }
}

}  // namespace warpsight
