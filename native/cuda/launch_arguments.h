// Stream, grid and block of a launch from its arguments, and object and size of any other call.
#pragma once

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
const Dimensions* plain_dimensions(LaunchForm form, const void* params, uint64_t* stream);

// Fills `shape` and `stream`; false when the launch's arguments do not tell.
bool launch_arguments(LaunchForm form, const void* params, Shape* shape, uint64_t* stream);

}  // namespace warpsight
