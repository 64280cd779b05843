// WARPSIGHT_METRICS=NAMES: hardware metrics of each kernel launch or of the program's ranges, by CUPTI's
// Range Profiler.
//
// A launch is measured between the entry and the exit of its call, in one pass: with more, CUPTI's replay of
// a kernel did not return. CUPTI does not replay ranges: one that needs several passes takes one each time
// the program enters it.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

// Whether launches, or ranges, are measured in this recording.
bool launches_measured();
bool ranges_measured();

// On the program's thread, around a launch; the same thread calls both.
void measured_launch_begins(CUcontext context, const char* kernel);
void measured_launch_ends(uint32_t name, uint32_t correlation);

// From resource callbacks, and at the end of the recording or of the process.
void end_measuring_of(CUcontext context);
void end_measuring(bool exiting);

}  // namespace warpsight
