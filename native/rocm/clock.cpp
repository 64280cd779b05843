#include "rocm/clock.h"

#include <time.h>

#include <atomic>

#include "rocm/functions.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

constexpr int kTries = 16;

std::atomic<int64_t> g_offset{0};  // theirs minus ours; relaxed: one number, right before and after a change

uint64_t boot_ns() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t their_ns() {
  uint64_t time = 0;
  return sdk().timestamp(&time) == kSuccess ? time : boot_ns();
}

uint64_t distance(int64_t a, int64_t b) { return static_cast<uint64_t>(a < b ? b - a : a - b); }

}  // namespace

void measure_clock() {
  int64_t offset = 0;
  uint64_t width = ~0ull;  // of the narrowest pair of our readings around theirs: twice the error
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = now_ns();
    const uint64_t time = their_ns();
    const uint64_t after = now_ns();
    if (after - before >= width) continue;
    width = after - before;
    offset = static_cast<int64_t>(time - (before + width / 2));
  }
  // On a machine that has never slept, the two clocks are equal, and earlier measurements remain valid until
  // it sleeps.
  if (distance(offset, 0) <= width) offset = 0;
  if (distance(offset, g_offset.load(std::memory_order_relaxed)) > width)
    g_offset.store(offset, std::memory_order_relaxed);
}

uint64_t to_monotonic(uint64_t time) {
  if (time == 0) return 0;
  return time - static_cast<uint64_t>(g_offset.load(std::memory_order_relaxed));
}

}  // namespace warpsight::rocm
