#include "rocm/clock.h"

#include <time.h>

#include <atomic>

#include "rocm/functions.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

constexpr int kTries = 16;
constexpr uint64_t kSameClockNs = 2000;  // two readings of one clock this near are that clock

std::atomic<int64_t> g_offset{0};  // theirs minus ours

uint64_t read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

template <class Read>
int64_t offset_of(Read theirs, uint64_t* width) {
  int64_t best = 0;
  *width = ~0ull;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = now_ns();
    const uint64_t time = theirs();
    const uint64_t after = now_ns();
    if (after - before >= *width) continue;
    *width = after - before;
    best = static_cast<int64_t>(time - (before + (after - before) / 2));
  }
  return best;
}

uint64_t distance(int64_t a, int64_t b) { return static_cast<uint64_t>(a < b ? b - a : a - b); }

}  // namespace

void measure_clock() {
  uint64_t width = 0;
  const int64_t theirs = offset_of(
      [] {
        uint64_t time = 0;
        return sdk().timestamp(&time) == kSuccess ? time : 0;
      },
      &width);
  uint64_t boot_width = 0;
  const int64_t boot = offset_of([] { return read(CLOCK_BOOTTIME); }, &boot_width);
  // The kernel's own clocks differ by what it slept, to the nanosecond: where one of them is meant, measuring
  // adds nothing but noise.
  const uint64_t near = kSameClockNs + width + boot_width;
  int64_t offset = theirs;
  if (distance(theirs, 0) <= near)
    offset = 0;
  else if (distance(theirs, boot) <= near)
    offset = boot;
  // A machine that has never slept has one clock under two names.
  if (distance(offset, 0) <= near) offset = 0;
  const int64_t before = g_offset.load(std::memory_order_relaxed);
  if (before == 0 || distance(before, offset) > near) g_offset.store(offset, std::memory_order_relaxed);
}

uint64_t to_monotonic(uint64_t time) {
  if (time == 0) return 0;
  return time - static_cast<uint64_t>(g_offset.load(std::memory_order_relaxed));
}

}  // namespace warpsight::rocm
