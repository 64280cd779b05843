// How long short things take, for less than two readings of the clock: the processor's time stamp counter,
// measured against CLOCK_MONOTONIC by our thread. Moments are always the clock's own.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace warpsight {

// Nanoseconds of a tick in units of 2^-32; 0 while it is not known, or where the counter cannot be trusted.
extern std::atomic<uint64_t> g_tick_length;

inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

inline bool ticks_known() { return g_tick_length.load(std::memory_order_relaxed) != 0; }

// The length of a stretch of ticks, in nanoseconds; 0 when the counter went backwards.
inline uint64_t ticks_ns(uint64_t stretch) {
  if (static_cast<int64_t>(stretch) < 0) return 0;
  const uint64_t length = g_tick_length.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(static_cast<unsigned __int128>(stretch) * length >> 32);
}

// Compares the counter with the clock; called by our thread every few milliseconds.
void measure_ticks();

}  // namespace warpsight
