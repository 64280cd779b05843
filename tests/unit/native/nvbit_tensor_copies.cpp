// Reads texts of instructions, a line each. Says which registers the tool records of each, and where among
// them the address of a tensor map is. Then claims keys of tensor maps from several threads at once: each is
// new once.
#include "nvbit/tensor_copies.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <thread>

#include "nvbit/ring.h"
#include "nvbit/tensor_maps.h"

u32 ws_shuffle(u32, u32 value, u32) { return value; }
bool ws_all(u32, bool holds) { return holds; }
u32 ws_ballot(u32 lanes, bool holds) { return holds ? lanes : 0; }
u32 ws_equal(u32 lanes, u32) { return lanes; }

static u64 g_maps[WS_TENSOR_MAPS];
constexpr u32 kThreads = 4, kKeys = 300;

// How often keys were new, of `count` that begin at places `step` apart.
static u64 claimed(u32 count, u64 step) {
  std::fill(std::begin(g_maps), std::end(g_maps), 0);
  std::atomic<u64> fresh{0};
  std::vector<std::thread> threads;
  for (u32 thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      for (u32 i = 1; i <= count; ++i) fresh += ws_new_map(g_maps, i * step | u64{i} << 32) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  return fresh;
}

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const warpsight::TensorCopy copy = warpsight::tensor_copy_of(line);
    std::cout << copy.recorded << ' ' << copy.map;
    for (const int number : copy.registers) std::cout << ' ' << number;
    std::cout << '\n';
  }
  // With all at one place, only as many keys as are looked at have one: the others are new each time.
  std::cout << claimed(kKeys, 7) << ' ' << claimed(kKeys, WS_TENSOR_MAPS) << '\n';
  return 0;
}
