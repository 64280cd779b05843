// The GPU work of a driver call, from its arguments.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

namespace warpsight {

enum class WorkKind : uint8_t {
  none,
  launch,
  copy,
  set,
  graph,
  record,
  wait,
  stream_wait,   // the host waits for a stream
  event_wait,    // for an event
  context_wait,  // for everything
  unsupported
};

struct Work {
  WorkKind kind = WorkKind::none;
  CUstream stream = nullptr;
  // launch
  CUfunction function = nullptr;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
  void** params = nullptr;
  void** extra = nullptr;
  const CUlaunchAttribute* attributes = nullptr;
  uint32_t attribute_count = 0;
  bool cooperative = false;
  // copy and set; an address that is the host's has `…_host`
  uint64_t destination = 0, source = 0, bytes = 0, rows = 1, destination_pitch = 0, source_pitch = 0;
  bool destination_host = false, source_host = false, unknown_sides = false;
  uint32_t value = 0, element = 1;
  // the rest
  CUevent event = nullptr;
  CUgraphExec graph = nullptr;
};

// The driver's calls that launch, copy and fill, by callback id.
const std::vector<uint32_t>& writing_calls();
// Those that order work, wait for it, or cannot be cut out.
const std::vector<uint32_t>& ordering_calls();

// Whether it is one that launches a kernel or a graph.
bool is_launch(uint32_t cbid);

// What is read of every kernel launch of a program.
struct KernelLaunch {
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  void** params = nullptr;
};

// False for calls that launch no kernel.
bool kernel_launch_of(uint32_t cbid, const void* params, KernelLaunch* launch);

// The effect of a call.
Work work_of(uint32_t cbid, const void* params);

// A copy and a fill as graph nodes have them.
Work copy_of(const CUDA_MEMCPY3D& copy);
Work set_of(const CUDA_MEMSET_NODE_PARAMS& set);

}  // namespace warpsight
