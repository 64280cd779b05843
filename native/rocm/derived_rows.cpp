#include "rocm/derived_rows.h"

#include <cstring>

#include "rocm/agents.h"

namespace warpsight::rocm {
namespace {

constexpr uint32_t kEventSync = 1, kStreamWaitEvent = 2, kStreamSync = 3, kContextSync = 4;
constexpr uint32_t kNoStream = ~0u;
constexpr uint8_t kAllocate = 1, kFree = 2;
constexpr uint8_t kPinned = 2, kDevice = 3, kManaged = 5;  // CUpti_ActivityMemoryKind

bool named(const ApiRule& rule, const char* part) { return strstr(rule.name, part) != nullptr; }

// Event handles are pointers; rows have 32 bits for an id, and a separate field for the whole handle.
uint32_t event_id(uint64_t handle) { return static_cast<uint32_t>(handle >> 4 ^ handle >> 36); }

void write_sync(const Api& call, uint32_t type, uint32_t stream, uint64_t event) {
  Sync row = {};
  row.start = call.start;
  row.end = call.start + call.duration;
  row.correlation = call.correlation;
  row.type = type;
  row.result = call.result;
  row.stream = stream;
  row.event = event != 0 ? event_id(event) : 0;
  row.event_sync = event;
  write(row);
}

void write_event(const Api& call, uint32_t stream) {
  Event row = {};
  row.event = event_id(call.object);
  row.event_sync = call.object;
  row.correlation = call.correlation;
  row.stream = stream;
  write(row);
}

uint8_t memory_kind(const ApiRule& rule) {
  if (named(rule, "Host")) return kPinned;
  return named(rule, "Managed") ? kManaged : kDevice;
}

void write_memory(const ApiRule& rule, uint32_t stream, const Api& call) {
  if (call.result != 0 || call.object == 0) return;
  Memory row = {};
  row.time = call.start + call.duration;
  row.address = call.object;
  row.bytes = call.bytes;
  row.correlation = call.correlation;
  row.stream = stream;
  row.stack = call.stack;
  row.operation = rule.object == ObjectAt::value ? kFree : kAllocate;
  row.kind = memory_kind(rule);
  row.allocator = intern_c("HIP");
  row.device = kNoDevice;
  write(row);
}

}  // namespace

void write_derived(const ApiRule& rule, const void* arguments, bool has_stream, uint32_t stream,
                   const Api& call) {
  const uint32_t of = has_stream ? stream : kNoStream;
  switch (rule.group) {
    case CallGroup::sync:
      if (named(rule, "EventSync")) return write_sync(call, kEventSync, kNoStream, call.object);
      if (named(rule, "StreamSync")) return write_sync(call, kStreamSync, of, 0);
      return write_sync(call, kContextSync, kNoStream, 0);
    case CallGroup::event:
      if (named(rule, "WaitEvent")) return write_sync(call, kStreamWaitEvent, of, call.object);
      if (call.result == 0 && named(rule, "Record")) write_event(call, of);
      return;
    case CallGroup::memory:
      return write_memory(rule, of, call);
    case CallGroup::stream:
      if (named(rule, "Destroy")) {
        uint64_t handle;
        memcpy(&handle, arguments, sizeof handle);
        forget_stream(handle);
      }
      return;
    default:
      return;
  }
}

}  // namespace warpsight::rocm
