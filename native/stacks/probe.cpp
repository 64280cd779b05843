// Stacks without a recording: for tests, benchmarks and `warpsight bench`.
#include <stdlib.h>
#include <time.h>

#include <algorithm>

#include "stacks/stacks.h"

#define WARPSIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// What the program does between two launches: it fills the caches with its own data.
void use_caches(volatile uint8_t* memory, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += 64) memory[i] = static_cast<uint8_t>(memory[i] + 1);
}

}  // namespace

// The calling thread's stack as a launch would take it, defined in this process's arena; 0 if there is none.
WARPSIGHT_EXPORT uint32_t ws_stack_take() {
  warpsight::prepare_stacks();
  return warpsight::capture_stack(1);
}

// Median time in ns of taking the calling thread's stack, over `times` times after the first; before each
// one, `beside` bytes of other memory are touched (0: the stack stays in the nearest cache). The median clock
// reading is subtracted.
WARPSIGHT_EXPORT uint64_t ws_stack_cost(uint32_t times, uint32_t beside) {
  ws_stack_take();
  auto* memory = static_cast<uint8_t*>(calloc(1, beside + 64));
  auto* spent = static_cast<uint64_t*>(calloc(times + 1, sizeof(uint64_t)));
  auto* reading = static_cast<uint64_t*>(calloc(times + 1, sizeof(uint64_t)));
  uint64_t cost = 0;
  if (memory != nullptr && spent != nullptr && reading != nullptr && times != 0) {
    for (uint32_t i = 0; i < times; ++i) {
      use_caches(memory, beside);
      const uint64_t start = now_ns();
      const uint64_t begun = now_ns();
      warpsight::capture_stack(1);
      spent[i] = now_ns() - begun;
      reading[i] = begun - start;
    }
    std::nth_element(spent, spent + times / 2, spent + times);
    std::nth_element(reading, reading + times / 2, reading + times);
    cost = spent[times / 2] - std::min(spent[times / 2], reading[times / 2]);
  }
  free(memory);
  free(spent);
  free(reading);
  return cost;
}
