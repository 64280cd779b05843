// The patches of delay plans: they note instructions, or wait before them.
#pragma once

#include "sanitizer/ring.cuh"

namespace {

// Whether an instruction is met for the first time; called by one lane. A full table forgets: the same is
// noted again, which does no harm.
DEVICE bool first_note(const WsLaunch* launch, u64 pc, u32 kind) {
  const u64 entry = 1ull << 40 | static_cast<u64>(kind) << 32 | (pc & 0xffffffffull);
  u32 at = static_cast<u32>((entry * 0x9e3779b97f4a7c15ull) >> 46);
  for (u32 probe = 0; probe < 64; ++probe, at = (at + 1) & (WS_NOTES - 1)) {
    u64 found = *const_cast<volatile u64*>(launch->notes + at);
    if (found == 0) found = atomicCAS(launch->notes + at, 0ull, entry);
    if (found == 0) return true;
    if (found == entry) return false;
  }
  return true;
}

// The plan's point at an instruction; null where there is none.
DEVICE const WsPoint* point_at(const WsLaunch* launch, u64 pc, u32 kind) {
  const u64 wanted = (pc & 0xffffffffull) << 32 | kind;
  u32 low = 0, high = launch->point_count;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    const WsPoint& point = launch->points[middle];
    (static_cast<u64>(point.pc) << 32 | point.kind) < wanted ? low = middle + 1 : high = middle;
  }
  if (low == launch->point_count) return nullptr;
  const WsPoint* found = launch->points + low;
  return (static_cast<u64>(found->pc) << 32 | found->kind) == wanted ? found : nullptr;
}

// Whether the plan has this block wait: the same for all threads of a block.
DEVICE bool block_waits(const WsLaunch* launch) {
  if ((launch->ranks >> (rank_in_cluster(launch) & 31) & 1) == 0) return false;
  if (launch->block_count == 0) return true;
  const u32 block = block_of_grid();
  u32 low = 0, high = launch->block_count;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    launch->blocks[middle].high <= block ? low = middle + 1 : high = middle;
  }
  return low < launch->block_count && launch->blocks[low].low <= block;
}

// How often this warp came here in this launch; called by one lane.
DEVICE u32 next_occurrence(const WsLaunch* launch, const WsPoint& point) {
  const u64 warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  const u64 at = (block_of_grid() * warps + warp_of_block()) * launch->places + point.place;
  if (at >= launch->occurrence_size) return WS_UNCOUNTED;
  u64* counter = launch->occurrences + at;
  u64 found = *const_cast<volatile u64*>(counter), seen;
  u32 count;
  do {
    seen = found;
    count = seen >> 32 == launch->stamp ? static_cast<u32>(seen) : 0;
    found = atomicCAS(counter, seen, static_cast<u64>(launch->stamp) << 32 | (count + 1));
  } while (found != seen);
  return count;
}

DEVICE i64 delay_of(const WsLaunch* launch, const WsPoint& point, u32 occurrence) {
  const u32 block = block_of_grid(), warp = warp_of_block();
  if (launch->rule.depth == 0)
    return ws_delay_of(launch->rule, point.number, occurrence, launch->index, block, warp);
  const u64 of_block = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  const u64 warps = static_cast<u64>(gridDim.x) * gridDim.y * gridDim.z * of_block;
  return ws_priority_delay(launch->rule, occurrence, launch->index, block * of_block + warp, warps);
}

// A sleep ends after a millisecond at the latest, and as early as it likes.
DEVICE void wait(u64 ns) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (now = begin; now - begin < ns;) {
    const u64 left = ns - (now - begin);
    __nanosleep(left < 1000000 ? static_cast<u32>(left) : 1000000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
}

// A record of one lane for the group: `a` and `b`, below 2^48, are the same for all.
DEVICE void write_visit(const WsLaunch* launch, const Group& group, u64 pc, u32 kind, u32 flags, u32 operands,
                        u64 a, u64 b) {
  const u32 words = WS_EVENT_HEADER_WORDS + operands;
  const u64 at = atomicAdd(launch->head, static_cast<u64>(words));
  wait_for_room(launch, at + words);
  u64 now;
  u32 sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  store(launch, at + 1, (pc & 0xffffffffull) | static_cast<u64>(block_of_grid()) << 32);
  store(launch, at + 2,
        launch->launch | static_cast<u64>(warp_of_block() & 255) << 32 | static_cast<u64>(flags & 255) << 40 |
            static_cast<u64>(sm & 65535) << 48);
  store(launch, at + 3, now);
  if (operands > 0) {
    store(launch, at + 4, a);
    store(launch, at + 5, b);
  }
  const u32 encodings = operands > 0 ? WS_AFFINE | WS_AFFINE << 2 : WS_NONE;
  store(launch, at,
        static_cast<u64>(group.lanes) | static_cast<u64>(kind) << 32 | static_cast<u64>(words) << 40 |
            static_cast<u64>(encodings) << 48);
}

DEVICE void delay(const WsLaunch* launch, u64 pc, u32 kind) {
  if ((launch->warps >> (warp_of_block() & 31) & 1) == 0 || !block_waits(launch)) return;
  const WsPoint* point = point_at(launch, pc, kind);
  if (point == nullptr) return;
  const Group group = group_of(__activemask());
  u32 occurrence = 0;
  if (group.lane == group.leader) occurrence = next_occurrence(launch, *point);
  occurrence = __shfl_sync(group.lanes, occurrence, group.leader);
  const i64 ns = delay_of(launch, *point, occurrence);
  if (ns < 0) return;
  const u64 length = static_cast<u64>(ns);
  if (group.lane == group.leader) write_visit(launch, group, pc, WS_DELAY_KIND, kind, 2, length, occurrence);
  wait(length);
  __syncwarp(group.lanes);
}

}  // namespace

// A warp comes to an instruction of a class.
extern "C" __device__ __noinline__ int ws_visit(void* userdata, u64 pc, u32 kind) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr) return 0;
  if (launch->mode == WS_DELAY) {
    delay(launch, pc, kind);
  } else if (launch->mode == WS_NOTE && chosen(launch, pc)) {
    const Group group = group_of(__activemask());
    if (group.lane == group.leader && first_note(launch, pc, kind))
      write_visit(launch, group, pc, kind, 0, 0, 0, 0);
    __syncwarp(group.lanes);
  }
  return 0;
}

// Patches may take fewer arguments than their class has.
#define VISIT(kind) \
  PATCH ws_visit_##kind(void* userdata, u64 pc) { return ws_visit(userdata, pc, kind); }
#define VISIT_ACCESS(kind)                        \
  PATCH ws_visit_##kind(void* userdata, u64 pc) { \
    ws_visit(userdata, pc, kind);                 \
    return without_predicates();                  \
  }

VISIT(1)
VISIT(2)
VISIT_ACCESS(3)
VISIT_ACCESS(4)
VISIT(6)
VISIT(7)
VISIT(8)
VISIT(13)
VISIT(14)
VISIT(15)
VISIT(16)
VISIT_ACCESS(17)
VISIT(19)
VISIT(21)
VISIT(22)
VISIT(23)
VISIT(24)
VISIT(25)
VISIT(26)
VISIT(27)
VISIT(29)
VISIT(30)
VISIT(31)
VISIT(32)
VISIT(33)
VISIT(34)
VISIT(35)
VISIT(36)
VISIT(37)
VISIT(38)
VISIT(39)
