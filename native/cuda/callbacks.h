// CUPTI's callback: one row per call of the program, written at the call's return, with the stack taken
// there.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

// The one callback we subscribe: API calls, resources, and the detach that stop() causes.
void CUPTIAPI on_callback(void* userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                          const void* data);

// Calls that threads are in belong to the recording before: the next call of each thread begins afresh.
void begin_callback_session();

// Launches seen so far, in steps of 64 per thread; shows the recorder whether to expect kernels.
uint64_t launches_seen();

// The stack of the CUDA call this thread is in, taken once per call; used for graph nodes the call creates,
// and marks the call as captured when `captured`.
uint32_t stack_of_current_call(bool captured);

// The call this thread is in made or changed a graph node.
void note_node(uint64_t node);

// The type of a node that the call this thread is in makes (node_types.h).
uint32_t node_type_of_current_call();

// While one lives, driver calls of this thread are ours, made after a call of the program: they get no rows.
struct OwnCall {
  OwnCall();
  ~OwnCall();
};

}  // namespace warpsight
