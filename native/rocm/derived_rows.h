// Waits, events and allocations from the calls themselves: rocprofiler-sdk has no records of waits and
// events, and its allocations are those of the runtime below HIP.
#pragma once

#include "ring/ring.h"
#include "rocm/api_rules.h"

namespace warpsight::rocm {

// Writes the Sync, Event or Memory row of a finished call, when its group has one; a destroyed stream's
// handle is forgotten.
void write_derived(const ApiRule& rule, const void* arguments, bool has_stream, uint32_t stream,
                   const Api& call);

}  // namespace warpsight::rocm
