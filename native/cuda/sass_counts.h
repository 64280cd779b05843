// WARPSIGHT_SASS_COUNTS=on|all|NAMES: exact counts of each instruction, by CUPTI's SASS Metrics: CUPTI
// patches the code of kernels.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

bool instructions_counted();

// Until the counts are taken at the end of the recording or of the process.
bool launches_patch_kernels();

// Before the first module is loaded: counts then carry the checksums of our Module rows.
void begin_sass_counts(bool contexts_exist);

// On the program's thread, before a launch in this context.
void count_from_launch(CUcontext context);

// From resource callbacks, and at the end of the recording or of the process: writes the counts.
void end_counts_of(CUcontext context);
void end_sass_counts(bool exiting);

}  // namespace warpsight
