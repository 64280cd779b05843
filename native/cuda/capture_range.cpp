#include "cuda/capture_range.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <deque>

#include "cuda/callbacks.h"
#include "runtime/runtime.h"
#include "stacks/stacks.h"

namespace warpsight {
namespace {

constexpr uint32_t kSwitchMs = 2000;
constexpr size_t kMostRanges = 4096;  // whose records may still come
constexpr uint8_t kInstant = 5;
constexpr uint16_t kSourceProfiler = 5;

std::atomic<bool> g_awaiting{false};
std::atomic<uint64_t> g_version{1};  // of the list below

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the list; nothing is called while it is held
std::deque<RangeOfCalls>& ranges() {
  static auto* const value = new std::deque<RangeOfCalls>;  // never destroyed: callbacks outlive destructors
  return *value;
}

void add_range(uint32_t after) {
  pthread_mutex_lock(&g_lock);
  ranges().push_front({after, 0, true});
  if (ranges().size() > kMostRanges) ranges().pop_back();
  pthread_mutex_unlock(&g_lock);
  g_version.fetch_add(1, std::memory_order_release);
}

void end_range(uint32_t before) {
  pthread_mutex_lock(&g_lock);
  if (!ranges().empty() && ranges().front().open) ranges().front() = {ranges().front().after, before, false};
  pthread_mutex_unlock(&g_lock);
  g_version.fetch_add(1, std::memory_order_release);
}

bool starts(const ApiRule& rule) { return strstr(rule.name, "Start") != nullptr; }

void write_marker(bool start) {
  Marker row = {};
  row.time = now_ns();
  row.name = intern_c(start ? "cudaProfilerStart" : "cudaProfilerStop");
  row.domain = intern_c("CUDA");
  row.phase = kInstant;
  row.source = kSourceProfiler;
  row.stack = capture_stack();
  write(row);
}

void open_range(uint32_t correlation) {
  add_range(correlation);
  if (switch_range(true, kSwitchMs)) return write_marker(true);
  end_range(correlation);
  report_loss("cuda", "cudaProfilerStart could not switch recording on: the recorder was busy");
}

void close_range(uint32_t correlation) {
  end_range(correlation);
  if (!switch_range(false, kSwitchMs))
    report_loss("cuda", "cudaProfilerStop could not switch recording off: the recorder was busy", 1,
                Severity::note);
}

// Ids are handed out in order and wrap.
bool later(uint32_t id, uint32_t other) { return static_cast<int32_t>(id - other) > 0; }

}  // namespace

bool awaiting_range() { return g_awaiting.load(std::memory_order_relaxed); }

void set_awaiting_range(bool waits) {
  static const bool registered =
      pthread_atfork(nullptr, nullptr, [] { g_awaiting.store(false, std::memory_order_relaxed); }) == 0;
  g_awaiting.store(waits && registered, std::memory_order_relaxed);
}

void outside_of_range(uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  if (!awaiting_range() || call.callbackSite != CUPTI_API_EXIT) return;
  const ApiRule& rule = rule_of(domain, cbid);
  if (rule.group == CallGroup::profiler && starts(rule)) open_range(call.correlationId);
}

void range_call(const ApiRule& rule, uint32_t correlation) {
  write_marker(starts(rule));
  if (settings().capture_range && !starts(rule)) close_range(correlation);
}

void begin_range_session() {
  pthread_mutex_lock(&g_lock);
  ranges().clear();
  pthread_mutex_unlock(&g_lock);
  g_version.fetch_add(1, std::memory_order_release);
}

void RangeFilter::refresh() {
  filters_ = settings().capture_range;
  if (!filters_ || g_version.load(std::memory_order_acquire) == version_) return;
  pthread_mutex_lock(&g_lock);
  version_ = g_version.load(std::memory_order_relaxed);
  ranges_.assign(ranges().begin(), ranges().end());
  pthread_mutex_unlock(&g_lock);
}

bool RangeFilter::inside(uint32_t correlation) const {
  if (!filters_ || correlation == 0) return true;
  for (const RangeOfCalls& range : ranges_) {
    if (later(correlation, range.after)) return range.open || later(range.before, correlation);
  }
  return false;
}

}  // namespace warpsight
