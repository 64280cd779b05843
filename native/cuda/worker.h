// The thread that decodes completed buffers, so that neither the program's threads nor CUPTI's do.
#pragma once

#include <cstdint>

#include "cuda/decode.h"

namespace warpsight {

// Starts the thread on the first call; false if the system cannot create one.
bool start_worker();

// Before kinds are enabled: forgets the counts of the session before.
void begin_worker_session(uint32_t cupti_version);

// Waits until every buffer completed before the call is decoded, at most `milliseconds`; false when that was
// too short.
bool drain_worker(uint32_t milliseconds);

// From now on the thread calls neither CUPTI nor NVML: the process exits, and their destructors may run.
void park_worker();

// Kernels since the last call whose module is unknown because recording did not begin with CUDA.
uint64_t take_unknown_modules();

// Loss rows for what CUPTI dropped and what lost its timestamps since the last call. On the recorder's
// thread.
void report_worker_loss();

}  // namespace warpsight
