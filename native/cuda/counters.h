// Everything that reads the GPU's counters alongside the records of its work: program counter samples, exact
// counts, metrics.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

// Before the first module is loaded: counts and samples then carry the checksums of our Module rows.
void begin_counters(bool contexts_exist);

// From resource callbacks, on the program's thread.
void begin_counters_of(CUcontext context);
void end_counters_of(CUcontext context);

// Whether launches are reported here, which happens on the program's thread around each launch. `kernel` is
// null for a graph at its start; `stream` is where the work goes.
bool launches_watched();
void launch_begins(CUcontext context, const char* kernel, CUstream stream);
void launch_ended(const char* name, uint32_t correlation);

// On the recorder's worker thread: writes what there is once a window is over.
void collect_counters();

// How long the worker may sleep, at most `idle_ms`.
uint32_t counter_window_ms(uint32_t idle_ms);

// The end of the recording; or of the process, when CUPTI has already freed some of the objects.
void end_counters(bool exiting);

}  // namespace warpsight
