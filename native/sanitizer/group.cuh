// The lanes that call a patch together, and where they are in the grid.
#pragma once

#include "sanitizer/event_format.h"

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#define PATCH extern "C" __device__ __noinline__ int
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__

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

// Sets predicate Pn to bit n. The result has no meaning, but without one ptxas would leave it all out.
extern "C" __device__ __noinline__ u32 ws_set_predicates(u32 bits) {
  u32 used;  // of all of them at once, so that each takes a register of its own
  asm volatile(
      "{\n\t.reg .pred p<7>;\n\t.reg .b32 b<7>;\n\t"
      "and.b32 b0, %1, 1;\n\tsetp.ne.u32 p0, b0, 0;\n\tand.b32 b1, %1, 2;\n\tsetp.ne.u32 p1, b1, 0;\n\t"
      "and.b32 b2, %1, 4;\n\tsetp.ne.u32 p2, b2, 0;\n\tand.b32 b3, %1, 8;\n\tsetp.ne.u32 p3, b3, 0;\n\t"
      "and.b32 b4, %1, 16;\n\tsetp.ne.u32 p4, b4, 0;\n\tand.b32 b5, %1, 32;\n\tsetp.ne.u32 p5, b5, 0;\n\t"
      "and.b32 b6, %1, 64;\n\tsetp.ne.u32 p6, b6, 0;\n\tmov.u32 %0, %%clock;\n\t"
      "@p0 add.u32 %0, %0, 1;\n\t@p1 xor.b32 %0, %0, 2;\n\t@p2 add.u32 %0, %0, 3;\n\t@p3 xor.b32 %0, %0, "
      "4;\n\t"
      "@p4 add.u32 %0, %0, 5;\n\t@p5 xor.b32 %0, %0, 6;\n\t@p6 add.u32 %0, %0, 7;\n\t}"
      : "=r"(used)
      : "r"(bits));
  return used;
}

namespace {

// How patches of accesses end. At a generic address the Sanitizer puts into P2 to P5 whether it is in global,
// shared, local or cluster memory, and calls the patch of each in turn by its predicate: one that a patch
// left set calls the next, too, with arguments that are no more.
DEVICE int without_predicates() {
  ws_set_predicates(0);
  return 0;
}

}  // namespace
