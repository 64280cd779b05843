// The CUDA recorder as the rest of the library sees it.
#pragma once

#include <cstdint>

// Weak: a build without CUDA headers has no CUDA recorder, and callers check the address.
namespace warpsight {

// Registers the CUDA recorder with the runtime once libcuda.so.1 is loaded in this process; true from then
// on. For a recording that starts inside a running program: the runtime calls it when recording begins and on
// every tick until it returns true (CUDA may be loaded later). A program injected through
// CUDA_INJECTION64_PATH does not need it.
__attribute__((weak)) bool register_cuda_backend();

// NVTX names a stream by its handle: sets that name in the stream's definition row. False if the handle is
// unknown.
__attribute__((weak)) bool name_cuda_stream(const void* handle, uint32_t name);

// Correlation id of the calling thread's last kernel launch in this recording; 0: none.
__attribute__((weak)) uint32_t last_launch_of_thread();
// A range of this thread begins or ends (NVTX push, annotate): where ranges are measured, it has hardware
// metrics.
__attribute__((weak)) void metric_range_begins(uint32_t name);
__attribute__((weak)) void metric_range_ends();

}  // namespace warpsight
