// WARPSIGHT_PC_SAMPLING=HZ: where warps are and what they wait for, through CUPTI's PC Sampling API. Contexts
// are sampled continuously from their creation to their end. CUPTI's start and stop calls are not used: made
// while another thread launches, they can deadlock inside CUPTI (docs/explanation/hot-lines.md).
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

// Whether CUPTI failed to deliver samples: it then finalizes itself, and must not be used again.
bool pc_sampling_broke();

// On the recorder's worker thread: writes what CUPTI has decoded once the window is over.
void collect_pc_samples();

// How long the worker may sleep, at most `idle_ms`.
uint32_t pc_window_ms(uint32_t idle_ms);

// The end of the recording: no context is sampled any more, and everything taken is written.
void end_pc_sampling();

}  // namespace warpsight
