// The parts of an operation while it runs: channels of its kernel, proxy operations and their network steps.
#pragma once

#include <cstdint>

#include "nccl/abi.h"

namespace warpsight::nccl {

enum class PartKind : uint32_t { channel = 1, proxy_op = 2, proxy_step = 3 };

// NCCL's description of a part when it begins.
struct PartStart {
  PartKind kind;
  uint64_t operation;  // 0 unknown
  uint64_t communicator;
  uint64_t timer;  // GPU clock at the start of a channel, ns; 0 unknown
  uint32_t channel;
  int32_t peer;
  int32_t step;  // number of a step; of a proxy operation how many it has
  bool sends;
};

// A handle for NCCL, 0 if too many parts are open (counted as lost).
uint64_t begin_part(const PartStart& start);
void part_state(uint64_t handle, int state, const StateArguments* arguments);
void end_part(uint64_t handle);
// For an open part: what a step inherits from its proxy operation.
PartStart part_start(uint64_t handle);

}  // namespace warpsight::nccl
