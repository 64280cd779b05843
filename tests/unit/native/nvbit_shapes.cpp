// Launches of graphs' kernels as the host tells them and warps find them: nvbit_shapes SHAPES LAUNCHES. The
// launches of a shape come one after another, those of different shapes at once. Which shapes find no place
// when there are too many is a matter of time.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "nvbit/graph_launches.h"
#include "nvbit/shapes.h"

namespace {

using warpsight::GraphLaunches;

constexpr u32 kWarps = 3;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const u32 count = static_cast<u32>(atoi(argv[1])), launches = static_cast<u32>(atoi(argv[2]));
  std::vector<uint64_t> host(GraphLaunches::kHostWords);
  std::vector<u64> device(GraphLaunches::kDeviceWords);
  GraphLaunches graphs;
  const WsShapes shapes = graphs.place(host.data(), reinterpret_cast<u64*>(host.data()), device.data());
  std::mutex mutex;  // protects `graphs`, `none`, `wrong` and `first_has_place`
  u32 none = 0, wrong = 0;
  bool first_has_place = true;
  const auto run = [&](u32 first) {
    for (u32 i = 0; i < launches; ++i)
      for (u32 one = first; one < count; one += 2) {
        const u32 shape[6] = {1 + one % 7, 1 + one / 7, 1, 64, 1, 1};
        const u64 key = ws_shape_key(one % 3, shape), what = u64{one} << 32 | (i + 1);
        {
          std::lock_guard<std::mutex> lock(mutex);
          if (graphs.add(key, what) == GraphLaunches::Added::kNoPlace) {
            none += i == 0 ? 1 : 0;
            first_has_place &= one != 0;
            continue;
          }
        }
        for (u32 warp = 0; warp < kWarps; ++warp) {
          ws_begin_warp(shapes, key, kWarps);
          if (ws_running_launch(shapes, key) == what) continue;
          std::lock_guard<std::mutex> lock(mutex);
          ++wrong;
        }
      }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  // Once more, without the host: taken for the last.
  const u32 shape[6] = {1, 1, 1, 64, 1, 1};
  const u64 key = ws_shape_key(0, shape);
  ws_begin_warp(shapes, key, kWarps);
  wrong += ws_running_launch(shapes, key) != (first_has_place ? launches : 0) ? 1 : 0;
  const u32 unknown[6] = {9, 9, 9, 9, 9, 9};
  wrong += ws_running_launch(shapes, ws_shape_key(0, unknown)) != 0 ? 1 : 0;
  printf("%u %u\n", none, wrong);
  return 0;
}
