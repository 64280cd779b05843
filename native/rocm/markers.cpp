// ROCTx ranges and marks. No stack, as with NVTX: a range names its place, and programs push millions.
#include <cstring>

#include "rocm/api_rules.h"
#include "rocm/calls.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

constexpr uint8_t kPush = 1, kPop = 2, kStart = 3, kEnd = 4, kInstant = 5;
constexpr uint16_t kSourceRoctx = 4;

MarkerOperations g_operations;  // constant once the context has started
thread_local uint32_t
    t_depth;  // open push/pop ranges; counted always, since a recording may begin inside one

void write_marker(uint8_t phase, uint64_t id, const char* message) {
  if (!recording()) return;
  Marker row = {};
  row.time = now_ns();
  row.id = id;
  row.phase = phase;
  row.source = kSourceRoctx;
  if (message != nullptr) row.name = intern_event(message);
  write(row);
}

template <class T>
T first_argument(const Heard& heard) {
  T value;
  memcpy(&value, static_cast<const char*>(heard.payload) + kArguments, sizeof value);
  return value;
}

uint64_t range_id(const Heard& heard) {
  uint64_t size, id;
  memcpy(&size, heard.payload, sizeof size);
  if (size < kArguments + kMarkerResultBytes) return 0;
  memcpy(&id, static_cast<const char*>(heard.payload) + size - kMarkerResultBytes, sizeof id);
  return id;
}

}  // namespace

void prepare_markers() { g_operations = marker_operations(); }

void on_marker(const Heard& heard) {
  const MarkerOperations& operations = g_operations;
  if (heard.payload == nullptr || heard.operation < 0) return;
  const bool enters = heard.phase == kEnter, leaves = heard.phase == kExit;
  const int operation = heard.operation;
  if (enters && operation == operations.push) {
    write_marker(kPush, t_depth++, first_argument<const char*>(heard));
  } else if (leaves && operation == operations.pop && t_depth != 0) {
    write_marker(kPop, --t_depth, nullptr);
  } else if (enters && operation == operations.mark) {
    write_marker(kInstant, 0, first_argument<const char*>(heard));
  } else if (leaves && operation == operations.start) {  // its id is its result
    write_marker(kStart, range_id(heard), first_argument<const char*>(heard));
  } else if (enters && operation == operations.stop) {
    write_marker(kEnd, first_argument<uint64_t>(heard), nullptr);
  }
}

}  // namespace warpsight::rocm
