// What a HIP call's arguments contain: stream, object, size, launch shape. `arguments` is the struct that
// rocprofiler-sdk passes.
#pragma once

#include "ring/ring.h"
#include "rocm/api_rules.h"

namespace warpsight::rocm {

// The call's stream handle; 0 is the default stream. False when the call has none.
bool stream_argument(const ApiRule& rule, const void* arguments, uint64_t* stream);

struct CallArguments {
  uint64_t object, bytes;
  uint64_t source;  // address that a copy reads, 0 none
};
// `done`: the call has returned without an error, so the values that it stored through its pointers can be
// read.
CallArguments call_arguments(const ApiRule& rule, const void* arguments, bool done);

// The shape a launch asks for; false when its arguments do not have it.
bool launch_shape(const ApiRule& rule, const void* arguments, Shape* shape);

}  // namespace warpsight::rocm
