// rocprofiler-sdk's clock (CLOCK_BOOTTIME in all known versions) as CLOCK_MONOTONIC.
#pragma once

#include <cstdint>

namespace warpsight::rocm {

// Compares the two clocks: at the start, and now and then, because a suspended machine shifts one against the
// other.
void measure_clock();

// A time of rocprofiler-sdk's on our clock; 0 stays 0.
uint64_t to_monotonic(uint64_t time);

}  // namespace warpsight::rocm
