// Stacks without a recording: for tests, benchmarks and `warpsight bench`.
#include <time.h>

#include "stacks/stacks.h"

#define WARPSIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

uint64_t thread_cpu_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

// The calling thread's stack as a launch would take it, defined in this process's arena; 0 when there is
// none.
WARPSIGHT_EXPORT uint32_t ws_stack_take() {
  warpsight::prepare_stacks();
  return warpsight::capture_stack(1);
}

// CPU time in ns that taking the calling thread's stack `times` times costs it, after the first.
WARPSIGHT_EXPORT uint64_t ws_stack_cost(uint32_t times) {
  ws_stack_take();
  const uint64_t start = thread_cpu_ns();
  for (uint32_t i = 0; i < times; ++i) warpsight::capture_stack(1);
  return thread_cpu_ns() - start;
}
