// The C functions for Python and for native programs (warpsight.h). Each is a no-op returning 0 when nothing
// records.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <atomic>

#include "cuda/cuda.h"
#include "ring/arena.h"
#include "runtime/own_time.h"
#include "runtime/state.h"
#include "stacks/stacks.h"

#define WARPSIGHT_EXPORT extern "C" __attribute__((visibility("default")))

using namespace warpsight;  // NOLINT: every function below is a thin cover of it

namespace {

constexpr uint16_t kSourceUser = 3;      // Counter.source
constexpr uint16_t kSourceAnnotate = 2;  // Marker.source
constexpr uint8_t kPush = 1, kPop = 2, kInstant = 5;

__thread uint32_t t_depth = 0;  // open ws_push ranges of this thread

uint32_t intern_text(const char* text) { return text ? intern_event(text) : 0; }

int written(bool ok) { return ok ? 0 : -ENOBUFS; }

std::atomic<uint64_t> g_steps{0};  // iterations that the program has completed

// Records or rests from now on: our thread follows the control word, and the caller waits until it has.
void switch_now(ArenaHeader* header, uint32_t control) {
  constexpr uint64_t kPatienceNs = 5000000000;
  __atomic_store_n(&header->control, control, __ATOMIC_RELEASE);
  const uint64_t until = now_ns() + kPatienceNs;
  const timespec pause = {0, 200000};
  while (__atomic_load_n(&header->control_ack, __ATOMIC_ACQUIRE) != control && now_ns() < until)
    nanosleep(&pause, nullptr);
}

Marker marker(uint8_t phase) {
  Marker row = {};
  row.time = now_ns();
  row.phase = phase;
  row.source = kSourceAnnotate;
  return row;
}

}  // namespace

// Starts recording to the launcher listening at `socket_path` (NULL or "": WARPSIGHT_SOCKET). 0 or -errno:
// EALREADY when it records already, ENOTSUP in a forked child of a process that recorded a GPU.
WARPSIGHT_EXPORT int ws_start(const char* socket_path) {
  const std::string path = socket_path && *socket_path ? socket_path : settings().socket;
  return path.empty() ? -ENOENT : -start_runtime(path.c_str());
}

// Ends the recording: stops the recorders, flushes, hands everything over. 0 or -errno.
WARPSIGHT_EXPORT int ws_stop() {
  constexpr uint32_t kStopMs = 10000;
  return -stop_runtime(kStopMs);
}

WARPSIGHT_EXPORT int ws_recording() { return recording(); }

// Delivers complete records, waiting at most `ms` milliseconds.
WARPSIGHT_EXPORT int ws_flush(uint32_t ms) {
  flush_all(false, ms);
  return 0;
}

WARPSIGHT_EXPORT uint32_t ws_capture_stack() { return recording() ? capture_stack() : 0; }

WARPSIGHT_EXPORT uint64_t ws_now() { return now_ns(); }

// A user event; `start` 0 means now, `attributes` is a JSON object or NULL.
WARPSIGHT_EXPORT int ws_emit(const char* name, uint64_t start, uint64_t duration, const char* kind,
                             const char* attributes) {
  if (!recording()) return 0;
  UserEvent row = {};
  row.start = start ? start : now_ns();
  row.duration = duration;
  row.name = intern_text(name);
  row.kind = intern_text(kind);
  row.attributes = intern_text(attributes);
  row.stack = capture_stack();
  return written(write(row));
}

// Ends an iteration of the program: marks it, and starts or stops recording if the launcher requested it at
// this step, so that all ranks of a job do so at the same one. Returns the number of iterations so far.
WARPSIGHT_EXPORT uint64_t ws_step() {
  const uint64_t number = g_steps.fetch_add(1, std::memory_order_relaxed) + 1;
  ArenaHeader* header = arena();
  if (header == nullptr) return number;
  __atomic_store_n(&header->steps, number, __ATOMIC_RELEASE);
  if (__atomic_load_n(&header->first_step, __ATOMIC_ACQUIRE) == number) switch_now(header, kControlRecord);
  if (recording()) {
    char attributes[40];
    snprintf(attributes, sizeof attributes, "{\"step\":%llu}", static_cast<unsigned long long>(number));
    ws_emit("step", 0, 0, "step", attributes);
  }
  if (__atomic_load_n(&header->last_step, __ATOMIC_ACQUIRE) == number) switch_now(header, 0);
  return number;
}

WARPSIGHT_EXPORT int ws_counter(const char* name, double value, const char* unit, int device) {
  if (!recording()) return 0;
  return written(write(Counter{now_ns(), value, intern_text(name), intern_text(unit), device, kSourceUser}));
}

WARPSIGHT_EXPORT int ws_push(const char* name, const char* attributes) {
  const OwnTime own(OwnSite::range);
  const uint32_t depth = t_depth++;  // counted always: a recording may begin or end inside a range
  if (!recording()) return 0;
  Marker row = marker(kPush);
  row.id = depth;
  row.name = intern_text(name);
  row.attributes = intern_text(attributes);
  row.stack = capture_stack();
  if (metric_range_begins != nullptr) metric_range_begins(row.name);
  return written(write(row));
}

WARPSIGHT_EXPORT int ws_pop() {
  const OwnTime own(OwnSite::range);
  if (t_depth) --t_depth;
  if (metric_range_ends != nullptr) metric_range_ends();
  if (!recording()) return 0;
  Marker row = marker(kPop);
  row.id = t_depth;
  return written(write(row));
}

// A named instant. In the domain "warpsight.trigger", it triggers the recording's triggers.
WARPSIGHT_EXPORT int ws_instant(const char* name, const char* domain) {
  if (!recording()) return 0;
  Marker row = marker(kInstant);
  row.name = intern_text(name);
  row.domain = intern_text(domain);
  row.stack = capture_stack();
  return written(write(row));
}

WARPSIGHT_EXPORT int ws_memory(int operation, uint64_t address, uint64_t bytes, const char* allocator,
                               const char* tag, int category, int device) {
  if (!recording()) return 0;
  constexpr uint8_t kReported = 255;
  Memory row = {};
  row.time = now_ns();
  row.address = address;
  row.bytes = bytes;
  row.stack = capture_stack();
  row.allocator = intern_text(allocator);
  row.tag = intern_text(tag);
  row.device = static_cast<uint16_t>(device);
  row.operation = static_cast<uint8_t>(operation);
  row.kind = kReported;
  row.category = static_cast<uint8_t>(category);
  return written(write(row));
}

// 0 rows written, 1 rows dropped, in this process since its recording began.
WARPSIGHT_EXPORT uint64_t ws_statistics(int which) {
  const RingStatistics statistics = ring_statistics();
  if (which == 0) return statistics.written;
  if (which == 1) return statistics.dropped;
  const ArenaHeader* here = arena();
  return which == 2 && here ? now_ns() - here->start_monotonic : 0;
}

// Few kinds, none of them frequent: half a gigabyte of addresses instead of two.
constexpr uint32_t kOwnBlocks = 8192;

// An arena without a connection, for the launcher's own rows, as a file of `folder` where that can be (NULL:
// never); its descriptor (which stays the library's) or -errno.
WARPSIGHT_EXPORT int ws_arena_create(const char* folder) {
  if (!create_arena(folder, kOwnBlocks)) return -errno;
  register_handlers();
  return arena_fd();
}

// A row of any kind but string, laid out as in layout.py. 0, -EINVAL when its size is wrong or -ENOBUFS when
// dropped.
WARPSIGHT_EXPORT int ws_write_row(uint16_t kind, const void* row, uint32_t row_bytes) {
  if (!arena()) return 0;
  if (!row || row_bytes != row_size(kind)) return -EINVAL;
  return written(write_row(kind, row, row_bytes, OnFull::drop));
}

// The id of a string; 0 when it is empty or nothing records.
WARPSIGHT_EXPORT uint32_t ws_intern(const char* text, uint64_t length) {
  return text ? intern({text, static_cast<size_t>(length)}) : 0;
}

// The id of a launch shape, laid out as in layout.py (its `id` is ignored); 0 when nothing records.
WARPSIGHT_EXPORT uint32_t ws_intern_shape(const Shape* shape) { return shape ? intern_shape(*shape) : 0; }
