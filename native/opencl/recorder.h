// The OpenCL backend as the runtime sees it, and what all its wrappers share.
#pragma once

#include <cstdint>
#include <string_view>

#include "functions.h"

namespace warpsight {

// Number of the current recording of this process, from 1; 0 before the first. Rows of definitions are
// written once per recording.
extern volatile uint32_t g_cl_recording;

// Connects to the launcher on the first context of the process; cheap afterwards.
void start_opencl();

// Registers an exit handler that lets commands under way end, so that it runs before handlers registered so
// far. Called again whenever the driver may have registered new ones: a compiler inside it makes statics when
// it first compiles, and must not find them destroyed while a command is still being compiled.
void wait_first_at_exit();

// Which rows settings().trace asks for; set when a recording starts.
struct ClKinds {
  bool kernel, memcpy, memset, sync, memory, build, flow;
};
extern ClKinds g_cl_kinds;

// The next correlation id of this process.
uint32_t next_correlation();
uint64_t full_correlation(uint32_t low);

uint64_t hash_bytes(std::string_view bytes);  // FNV-1a

// A loss row (a note) for every pattern of WARPSIGHT_KERNELS that matched no kernel, once for each.
void report_unmatched_cl_patterns();

void announce_contexts(uint32_t recording_number);
void announce_queues(uint32_t recording_number);

}  // namespace warpsight
