// Records of finished work. rocprofiler-sdk hands them over on its own thread, late and in any order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rocm/abi.h"

namespace warpsight::rocm {

// The buffer's callback.
void on_records(ContextId context, BufferId buffer, RecordHeader** headers, size_t count, void* data,
                uint64_t dropped);

// Kernels whose records have come, so far.
uint64_t kernels_decoded();

// Loss rows for what was dropped, too short or without a name since the last call. On the recorder's thread.
void report_records();

}  // namespace warpsight::rocm
