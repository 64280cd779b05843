// WARPSIGHT_PC_SAMPLING=HZ: where warps stand and what they wait for, by CUPTI's PC Sampling API.
//
// Contexts are sampled from their creation to their end, or in windows (WARPSIGHT_PC_SAMPLING_EVERY). A
// window begins and ends while no thread launches: otherwise CUPTI can deadlock
// (docs/explanation/hot-lines.md).
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace warpsight {

// Before the first module is loaded: samples then carry the checksums of our Module rows.
void begin_pc_sampling(bool contexts_exist);

// From resource callbacks, on the program's thread.
void sample_context(CUcontext context);
void end_sampling_of(CUcontext context);

// Whether launches are told to the two functions below, which keep windows from changing meanwhile.
bool sampled_in_windows();
void sampled_launch_begins();
void sampled_launch_ended();

// On the recorder's worker thread: writes what CUPTI has decoded once the window is over.
void collect_pc_samples();

// How long the worker may sleep, at most `idle_ms`.
uint32_t pc_window_ms(uint32_t idle_ms);

// The end of the recording: no context is sampled any more, and everything taken is written.
void end_pc_sampling();

}  // namespace warpsight
