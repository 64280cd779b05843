// WARPSIGHT_METRICS=NAMES: hardware metrics of each kernel launch or of the program's ranges, by CUPTI's
// Range Profiler.
//
// A launch is a range of its own, from the entry of its call to the end of its kernel. CUPTI's automatic
// ranges are not used: begun at a launch they measure nothing, they make a captured launch fail, and their
// replay of kernels writes to the program's memory. A run of the program takes one pass (metric_passes.h).
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

// Whether launches, or ranges, are measured in this recording.
bool launches_measured();
bool ranges_measured();

// On the program's thread, around a launch into `stream`; the same thread calls both.
void measured_launch_begins(CUcontext context, const char* kernel, CUstream stream);
void measured_launch_ends(uint32_t name, uint32_t correlation);

// From resource callbacks, and at the end of the recording or of the process.
void end_measuring_of(CUcontext context);
void end_measuring(bool exiting);

}  // namespace warpsight
