// Memory of the current context, from the driver.
#pragma once

#include <nvbit.h>

#include "sanitizer/device_memory.h"

namespace warpsight {

struct DriverMemory final : DeviceMemory {
  int alloc(void** made, size_t bytes) override {
    return cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(made), bytes);
  }
  int clear(void* at, size_t bytes, void* stream) override {
    return cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(at), 0, bytes, static_cast<CUstream>(stream));
  }
  int copy(void* to, const void* from, size_t bytes, void* stream) override {
    return cuMemcpyHtoDAsync_v2(reinterpret_cast<CUdeviceptr>(to), from, bytes,
                                static_cast<CUstream>(stream));
  }
};

}  // namespace warpsight
