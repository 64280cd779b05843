// WARPSIGHT_METRICS_EVERY=US: hardware metrics of whole GPUs at a fixed interval, as counters, by CUPTI's PM
// Sampling API.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

bool devices_sampled();

// On the program's thread, before a launch: samples the device of the context unless it is sampled already.
// CUPTI's start does not return where a context is only being created.
void sample_device_of(CUcontext context);

// On the recorder's worker thread: writes the GPU's samples once the window is over.
void collect_device_samples();
uint32_t device_window_ms(uint32_t idle_ms);

// The end of the recording, or of the process.
void end_device_sampling(bool exiting);

}  // namespace warpsight
