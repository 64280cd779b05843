// The lanes that call a patch together, and where they are in the grid.
#pragma once

#include "sanitizer/event_format.h"

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#define PATCH extern "C" __device__ __noinline__ int
#define DEVICE static __device__ __forceinline__

namespace {

// The lanes that record together.
struct Group {
  u32 lanes;
  u32 leader;
  u32 count;
  u32 rank;  // of this lane among them
  u32 lane;
};

DEVICE Group group_of(u32 lanes) {
  u32 lane, below;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  return {lanes, static_cast<u32>(__ffs(lanes)) - 1, static_cast<u32>(__popc(lanes)),
          static_cast<u32>(__popc(lanes & below)), lane};
}

DEVICE u32 block_of_grid() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

DEVICE u32 warp_of_block() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
}

DEVICE u32 rank_in_cluster(const WsLaunch* launch) {
  const unsigned int* size = launch->cluster;
  return blockIdx.x % size[0] + size[0] * (blockIdx.y % size[1] + size[1] * (blockIdx.z % size[2]));
}

// Whether this launch, block, warp and instruction are recorded: the same for all lanes of a warp.
DEVICE bool chosen(const WsLaunch* launch, u64 pc) {
  const u32 block = block_of_grid();
  if (block < launch->block_low || block >= launch->block_high) return false;
  if ((launch->warps >> (warp_of_block() & 31) & 1) == 0) return false;
  if (launch->pc_ranges == 0) return true;
  bool inside = false;
  for (u32 i = 0; i < launch->pc_ranges; ++i) inside |= pc >= launch->pc[2 * i] && pc < launch->pc[2 * i + 1];
  return inside;
}

}  // namespace
