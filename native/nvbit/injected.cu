// What the NVBit tool injects before or after instructions: the lanes of a warp that are there write one
// record (tool_format.h) to a ring in host memory and wait while the ring is full, so nothing is lost; or
// they wait as a delay plan says.
#include <cstdarg>

#include "nvbit/record.h"
#include "sanitizer/visit_patches.cuh"

namespace {

WS_DEVICE u32 lane_id() {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// Whether this launch, block and warp are recorded: the same for all lanes of a warp.
WS_DEVICE bool chosen(const WsTool* tool, u64 launch) {
  if ((launch & WS_WANTED) == 0) return false;
  const u32 block = block_of_grid();
  if (block < tool->block_low || block >= tool->block_high) return false;
  return (tool->warps >> (warp_of_block() & 31) & 1) != 0;
}

// The number of this record among those of its launch.
WS_DEVICE u64 number_of(const WsTool* tool, u32 launch) {
  u64* const counter = tool->counters + (launch & tool->counter_mask);
  const u64 begin = static_cast<u64>(launch) << 32;
  if ((*static_cast<volatile u64*>(counter) >> 32) != launch) atomicMax(counter, begin);
  return atomicAdd(counter, 1ull) - begin;
}

struct Ring {
  const WsTool* tool;

  // ~0 when `every` or `first` leave the record out.
  WS_INLINE u64 reserve(const WsGroup& group, u32 launch, u32 words) const {
    u64 at = 0;
    if (group.lane == group.leader) {
      bool wanted = true;
      if (tool->every > 1 || tool->first != ~0ull) {
        const u64 number = number_of(tool, launch);
        wanted = number % tool->every == 0 && number / tool->every < tool->first;
      }
      at = wanted ? atomicAdd(tool->head, static_cast<u64>(words)) : ~0ull;
      if (wanted) wait_for_room(tool, at + words);
    }
    return ws_shuffle_wide(group.lanes, at, group.leader);
  }
  WS_INLINE void store(u64 at, u64 word) const { ::store(tool, at, word); }
};

WS_DEVICE WsEvent event_at(u32 pc, u64 launch, u32 lanes) {
  WsEvent event = {};
  event.pc = pc;
  event.launch = static_cast<u32>(launch);
  event.lanes = lanes;
  event.block = block_of_grid();
  event.warp = warp_of_block();
  asm("mov.u32 %0, %%smid;" : "=r"(event.sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(event.time));
  return event;
}

constexpr u32 kGeneric = 0, kGlobal = 3, kShared = 4, kLocal = 5;

}  // namespace

// `what`: flags | registers << 8. The registers' values follow.
extern "C" __device__ __noinline__ void ws_nvbit_registers(int guard, u64 launch, u64 context, u32 pc,
                                                           u32 what, ...) {
  const auto* tool = reinterpret_cast<const WsTool*>(context);
  if (!chosen(tool, launch)) return;
  const u32 together = __activemask(), lane = lane_id();
  const u32 guarded = ws_ballot(together, guard != 0);
  WsEvent event = event_at(pc, launch, together);
  event.flags = what & 255;
  event.size = what >> 8;
  if (guarded == 0 || event.size == 0) {
    if (event.flags == 0) ws_write_instruction(Ring{tool}, ws_group(together, lane), event, guarded);
    return;
  }
  // Where records are left out, those of one instruction would not be together.
  const bool thinned = tool->every > 1 || tool->first != ~0ull;
  if (guard == 0 || (thinned && event.flags > 1)) return;
  u32 values[WS_REGISTERS_AT_ONCE];
  va_list given;
  va_start(given, what);
  for (u32 i = 0; i < event.size && i < WS_REGISTERS_AT_ONCE; ++i) values[i] = va_arg(given, u32);
  va_end(given);
  ws_write_registers(Ring{tool}, ws_group(guarded, lane), event, values);
}

// A memory access. `what`: kind | flags << 8 | bytes << 16 | 1 << 24 where there is a B. Kind 0: which memory
// a generic address is in is found here.
extern "C" __device__ __noinline__ void ws_nvbit_access(int guard, u64 launch, u64 context, u32 pc, u32 what,
                                                        u64 a, u64 b) {
  const auto* tool = reinterpret_cast<const WsTool*>(context);
  if (!chosen(tool, launch)) return;
  const u32 together = __activemask(), lane = lane_id();
  const bool generic = (what & 255) == kGeneric;
  u32 kind = what & 255;
  if (generic) {
    const void* const pointer = reinterpret_cast<const void*>(a);
    kind = __isShared(pointer) ? kShared : __isLocal(pointer) ? kLocal : kGlobal;
    if (kind != kGlobal) a &= 0xffffffull;  // the offset in its window
  }
  for (u32 one = generic ? kGlobal : kind; one <= (generic ? kLocal : kind); ++one) {
    const u32 lanes = ws_ballot(together, guard != 0 && kind == one);
    if ((lanes >> lane & 1) == 0) continue;
    WsEvent event = event_at(pc, launch, lanes);
    event.kind = one;
    event.flags = what >> 8 & 255;
    event.size = what >> 16 & 255;
    ws_write_access(Ring{tool}, ws_group(lanes, lane), event, a, b, (what >> 24 & 1) != 0);
  }
}

// A warp comes to a point of a delay plan. `launch`: a WsLaunch; none: nothing waits.
extern "C" __device__ __noinline__ void ws_nvbit_visit(int guard, u64 launch, u32 pc) {
  if (guard != 0) ws_visit(reinterpret_cast<void*>(launch), pc, WS_INSTRUCTION_KIND);
}
