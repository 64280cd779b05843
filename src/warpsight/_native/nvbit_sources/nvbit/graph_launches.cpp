#include "nvbit/graph_launches.h"

#include <chrono>
#include <thread>

namespace warpsight {
namespace {

// Of a shape's, in the host's memory.
constexpr size_t kKeys = 0, kCounts = WS_SHAPES, kBegun = 2 * WS_SHAPES, kLaunches = 3 * WS_SHAPES;
constexpr auto kPause = std::chrono::microseconds(50);
constexpr auto kPatience = std::chrono::seconds(1);

}  // namespace

WsShapes GraphLaunches::place(uint64_t* host, unsigned long long* host_from_device,
                              unsigned long long* device) {
  keys_ = host + kKeys;
  counts_ = host + kCounts;
  begun_ = host + kBegun;
  launches_ = host + kLaunches;
  return {host_from_device + kKeys,
          host_from_device + kCounts,
          host_from_device + kLaunches,
          host_from_device + kBegun,
          device,
          device + WS_SHAPES,
          device + 2 * size_t{WS_SHAPES}};
}

GraphLaunches::Added GraphLaunches::add(uint64_t key, uint64_t what) {
  size_t at = WS_SHAPES;
  for (size_t probe = 0; probe < WS_SHAPE_PROBES && at == WS_SHAPES; ++probe) {
    const size_t tried = (key + probe) & (WS_SHAPES - 1);
    if (keys_[tried] == key || keys_[tried] == 0) at = tried;
  }
  if (at == WS_SHAPES) return Added::kNoPlace;
  const uint64_t count = counts_[at];
  const auto full = [&] {
    return count - __atomic_load_n(begun_ + at, __ATOMIC_RELAXED) >= WS_SHAPE_LAUNCHES;
  };
  const auto begin = std::chrono::steady_clock::now();
  while (full() && std::chrono::steady_clock::now() - begin < kPatience) std::this_thread::sleep_for(kPause);
  const Added added = full() ? Added::kLate : Added::kGood;
  launches_[at * WS_SHAPE_LAUNCHES + (count & (WS_SHAPE_LAUNCHES - 1))] = what;
  __atomic_store_n(counts_ + at, count + 1, __ATOMIC_RELEASE);
  __atomic_store_n(keys_ + at, key, __ATOMIC_RELEASE);
  return added;
}

}  // namespace warpsight
