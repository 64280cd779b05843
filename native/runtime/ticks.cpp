#include "runtime/ticks.h"

#include <stdio.h>
#include <string.h>

#include "ring/hot.h"
#include "runtime/runtime.h"

namespace warpsight {

WARPSIGHT_HOT_DATA std::atomic<uint64_t> g_tick_length{0};

#if defined(__x86_64__)
namespace {

constexpr uint64_t kShortestNs = 20'000'000;    // a comparison over less is not meaningful
constexpr uint64_t kLongestNs = 1'000'000'000;  // then a new one begins
constexpr uint64_t kReadingNs = 500;            // a pair of readings further apart was interrupted
constexpr uint64_t kAgree = 1000;  // lengths that differ by more than one part in this do not agree

struct Reading {
  uint64_t ticks, ns;
};
Reading g_first = {};  // our thread's alone

// Linux uses the counter for its own clock only where it runs evenly and alike on all processors.
bool trusted() {
  char name[32] = "";
  if (FILE* file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re")) {
    if (fgets(name, sizeof name, file) == nullptr) name[0] = 0;
    fclose(file);
  }
  return strncmp(name, "tsc", 3) == 0 || strncmp(name, "kvm-clock", 9) == 0;
}

bool read_both(Reading* reading) {
  const uint64_t before = now_ns();
  reading->ticks = ticks();
  reading->ns = now_ns();
  return reading->ns - before < kReadingNs;
}

}  // namespace
#endif

void measure_ticks() {
#if defined(__x86_64__)
  static const bool trust = trusted();
  Reading now;
  if (!trust || !read_both(&now)) return;
  const uint64_t passed = now.ns - g_first.ns, counted = now.ticks - g_first.ticks;
  if (g_first.ns == 0 || static_cast<int64_t>(counted) <= 0) {
    g_first = now;
    return;
  }
  if (passed < kShortestNs) return;
  const uint64_t before = g_tick_length.load(std::memory_order_relaxed);
  // The first second's comparisons sharpen one another; later ones only watch.
  const auto length = static_cast<uint64_t>((static_cast<unsigned __int128>(passed) << 32) / counted);
  const uint64_t difference = length > before ? length - before : before - length;
  const bool agrees = before == 0 || difference < before / kAgree;
  g_tick_length.store(agrees ? length : 0, std::memory_order_relaxed);
  if (!agrees || passed > kLongestNs) g_first = now;
#endif
}

}  // namespace warpsight
