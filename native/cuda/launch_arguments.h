// Stream, grid and block of a launch from its arguments, and object and size of any other call.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "cuda/api_rules.h"
#include "ring/ring.h"

namespace warpsight {

struct CallArguments {
  uint64_t object;
  uint64_t bytes;
};

// `params` is CUPTI's functionParams; `succeeded` whether results may be read through its pointers.
CallArguments call_arguments(const ApiRule& rule, const void* params, bool succeeded);

// Grid, block and dynamic shared memory, as the driver's arguments have them.
struct Dimensions {
  uint32_t grid[3], block[3], shared;
};

// Those of a driver's launch without clusters, and its stream; null when there is more to its shape than
// them.
inline const Dimensions* plain_dimensions(LaunchForm form, const void* params, uint64_t* stream) {
  static_assert(offsetof(cuLaunchKernel_params, sharedMemBytes) - offsetof(cuLaunchKernel_params, gridDimX) ==
                    offsetof(Dimensions, shared) &&
                offsetof(CUlaunchConfig, sharedMemBytes) - offsetof(CUlaunchConfig, gridDimX) ==
                    offsetof(Dimensions, shared));
  if (params == nullptr) return nullptr;
  if (form == LaunchForm::driver_arguments) {
    const auto& p = *static_cast<const cuLaunchKernel_params*>(params);
    *stream = reinterpret_cast<uint64_t>(p.hStream);
    return reinterpret_cast<const Dimensions*>(&p.gridDimX);
  }
  if (form != LaunchForm::driver_config) return nullptr;
  const CUlaunchConfig* config = static_cast<const cuLaunchKernelEx_params*>(params)->config;
  if (config == nullptr) return nullptr;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return nullptr;
  }
  *stream = reinterpret_cast<uint64_t>(config->hStream);
  return reinterpret_cast<const Dimensions*>(&config->gridDimX);
}

// Fills `shape` and `stream`; false if the launch's arguments do not contain them.
bool launch_arguments(LaunchForm form, const void* params, Shape* shape, uint64_t* stream);

}  // namespace warpsight
