// rocprofiler-sdk's callbacks on the program's threads: one row per HIP call, written at its return with the
// stack taken there, and what dispatches and copies that the call makes take along of it.
#pragma once

#include <cstdint>

#include "ring/ring.h"
#include "rocm/abi.h"

namespace warpsight::rocm {

// A callback's record, whichever of the two layouts it has.
struct Heard {
  uint64_t correlation;
  int operation;
  int phase;
  const void* payload;
};

void on_call(const Heard& heard);
void on_dispatch(const Heard& heard);
void on_marker(const Heard& heard);  // markers.cpp

// Once, before the service of markers is configured.
void prepare_markers();

// Called for each dispatch and copy, on the thread that makes it, to find the stream of the call it belongs
// to.
int on_request(uint64_t thread, ContextId context, int kind, int operation, uint64_t internal,
               UserData* external, void* data);
// What an external correlation id says, when it is one that we gave.
struct Told {
  bool ours, asynchronous;
  uint32_t stream;
};
Told told_by(UserData external);

// What a launch says of its kernel: that a row will follow, unless one of these was called before the context
// starts.
void expect_dispatches();  // the library reports them as they are made: a launch without one has no kernel
void expect_no_kernels();  // none are recorded

// Dispatches made while recording, so far.
uint64_t dispatches_made();

// The name (mangled, nullptr unknown), name id and shape of a dispatched kernel.
struct Dispatched {
  const char* text;
  uint32_t name;
  uint32_t module;
  Shape shape;
};
Dispatched describe(const DispatchInfo& info);

}  // namespace warpsight::rocm
