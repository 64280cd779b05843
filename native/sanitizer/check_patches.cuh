// The patches that look for races while kernels run (race_layout.h says how).
#pragma once

#include "sanitizer/race_events.h"
#include "sanitizer/ring.cuh"

namespace {

// A record of one lane with four words: A, B and the values.
DEVICE void write_told(const WsMe& me, u32 kind, u32 flags, u32 lane, u32 pc, const u64 (&words)[4]) {
  const auto* launch = static_cast<const WsLaunch*>(me.launch);
  constexpr u32 kWords = WS_EVENT_HEADER_WORDS + 4;
  const u64 at = atomicAdd(launch->head, static_cast<u64>(kWords));
  wait_for_room(launch, at + kWords);
  u64 now;
  u32 sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  store(launch, at + 1, pc | static_cast<u64>(me.block) << 32);
  store(launch, at + 2,
        launch->launch | static_cast<u64>(me.warp_of_block & 255) << 32 | static_cast<u64>(flags) << 40 |
            static_cast<u64>(sm & 65535) << 48);
  store(launch, at + 3, now);
  for (u32 i = 0; i < 4; ++i) store(launch, at + 4 + i, words[i]);
  const u32 encodings = WS_LIST | WS_LIST << 2 | WS_VALUE_EACH << 4;
  store(launch, at,
        1ull << lane | static_cast<u64>(kind) << 32 | static_cast<u64>(kWords) << 40 |
            static_cast<u64>(encodings) << 48 | 16ull << 56);
}

}  // namespace

// Flags: the reason in bits 0-3, then shared memory, whether the earlier access writes, whether this one
// does. A: the address; B: low half of the earlier program counter, and its thread; values: how often so far,
// and the earlier block.
WS_APART void tell(WsMe me, WsFinding found) {
  const u32 flags = found.reason | found.shared << 4 | found.earlier_writes << 5 | found.writes << 6;
  const u32 row = (static_cast<u32>(found.earlier >> 27) - me.race->first_row) & (WS_ROWS - 1);
  const u32 thread = row % me.race->warps * 32 + lane_of(found.earlier);
  write_told(me, WS_RACE_KIND, flags, found.lane, me.race->site_pcs[WS_SITE(me.facts)],
             {found.address, me.race->site_pcs[site_of(found.earlier)] | static_cast<u64>(thread) << 32,
              found.count, row / me.race->warps});
}

// A: the cause; values: how often so far.
WS_APART void leave_out(WsMe me, u32 cause) {
  const u64 count = add(me.race->unwatched + cause, 1ull) + 1;
  if ((count & (count - 1)) == 0) write_told(me, WS_UNWATCHED_KIND, 0, 0, 0, {cause, 0, count, 0});
}

namespace {

DEVICE u32 facts_of(const WsRace* race, u64 pc) {
  for (u32 i = 0; i < race->function_count; ++i) {
    const u64 offset = pc - race->functions[i].pc;
    if (offset < race->functions[i].bytes) return race->facts[race->functions[i].first + offset / 16];
  }
  return 0;
}

// The warp at this instruction, and what the fences before it do; false when it is not watched.
DEVICE bool come(WsMe* me, void* userdata, u64 pc) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr || launch->mode != WS_CHECK) return false;
  const Group group = group_of(__activemask());
  me->launch = launch;
  me->race = launch->race;
  me->block = block_of_grid();
  me->warp_of_block = warp_of_block();
  me->lanes = group.lanes;
  me->rank = group.rank;
  me->count = group.count;
  if (!begin(me)) return false;
  me->facts = facts_of(me->race, pc);
  constexpr u32 kFences = 31u << 14;
  if ((me->facts & kFences) != 0) pass_fences(*me);
  return me->warp->epoch < WS_LARGEST_EPOCH;
}

DEVICE u32 this_lane() {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

}  // namespace

// An access of a lane. `what`: class | flags << 8 | bytes << 16.
extern "C" __device__ __noinline__ int ws_check_access(void* userdata, u64 pc, u32 what, u64 address,
                                                       u32 count) {
  WsMe me;
  if (!come(&me, userdata, pc)) return 0;
  const u64 first = __shfl_sync(me.lanes, address, __ffs(me.lanes) - 1);
  const bool whole = __all_sync(me.lanes, first == address) && me.count > 1;
  on_access(me, this_lane(), what, address, count, whole);
  leave(me);
  return 0;
}

// Copies of the async proxies; the lanes of bulk copies say the same.
extern "C" __device__ __noinline__ int ws_check_copy(void* userdata, u64 pc, u32 kind, u64 global, u32 shared,
                                                     u32 size, u32 barrier) {
  WsMe me;
  if (!come(&me, userdata, pc)) return 0;
  on_copy(me, this_lane(), kind, global, shared, size, barrier);
  leave(me);
  return 0;
}

// What orders accesses.
extern "C" __device__ __noinline__ int ws_check_order(void* userdata, u64 pc, u32 kind, u32 flags, u64 a,
                                                      u32 b) {
  WsMe me;
  if (!come(&me, userdata, pc)) return 0;
  u64 word = 0;
  if (kind == 39 && flags == (kInit | 128)) {
    u64 generic;
    asm("cvta.shared.u64 %0, %1;" : "=l"(generic) : "l"(a & 0xffffff));
    word = *reinterpret_cast<const volatile u64*>(generic);
  }
  on_order(me, kind, flags, a, b, word);
  leave(me);
  return 0;
}

#define CHECK_MEMORY(kind)                                                                         \
  PATCH ws_check_##kind(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void*) { \
    return ws_check_access(userdata, pc, kind | (flags & 255) << 8 | size << 16,                   \
                           reinterpret_cast<u64>(address), 0);                                     \
  }
CHECK_MEMORY(3)
CHECK_MEMORY(4)
CHECK_MEMORY(17)

PATCH ws_check_19(void* userdata, u64 pc, u32 address, u32 size, u32 flags, u32 count, const void*) {
  return ws_check_access(userdata, pc, 19 | (flags & 255) << 8 | size << 16, address, count);
}

PATCH ws_check_14(void* userdata, u64 pc, void* source, u32 target, u32 size) {
  return ws_check_copy(userdata, pc, 14, reinterpret_cast<u64>(source), target, size, 0);
}

PATCH ws_check_30(void* userdata, u64 pc, u64 source, u32 target, u32 barrier, u32 data, u32) {
  return ws_check_copy(userdata, pc, 30, source, target, (data & 65535) * 16, barrier);
}

PATCH ws_check_35(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return ws_check_copy(userdata, pc, 35, target, source, blocks * 16, 0);
}

PATCH ws_check_37(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return ws_check_copy(userdata, pc, 37, target, source, blocks * 16, 0);
}

#define CHECK_ORDER(kind) \
  PATCH ws_check_##kind(void* userdata, u64 pc) { return ws_check_order(userdata, pc, kind, 0, 0, 0); }
CHECK_ORDER(15)
CHECK_ORDER(21)
CHECK_ORDER(22)
CHECK_ORDER(33)

PATCH ws_check_6(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  (void)flags;
  return ws_check_order(userdata, pc, 6, 0, index, threads);
}

PATCH ws_check_29(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  (void)flags;
  return ws_check_order(userdata, pc, 29, 0, index, threads);
}

PATCH ws_check_16(void* userdata, u64 pc, u32 groups) {
  return ws_check_order(userdata, pc, 16, 0, groups, 0);
}

PATCH ws_check_34(void* userdata, u64 pc, u32 barrier) {
  return ws_check_order(userdata, pc, 34, 0, barrier, 0);
}

PATCH ws_check_13(void* userdata, u64 pc, void* barrier, u32 action, u32 data) {
  return ws_check_order(userdata, pc, 13, action & 127, reinterpret_cast<u64>(barrier), data);
}

PATCH ws_check_39(void* userdata, u64 pc, void* barrier, u32 action, u32 data, u32 result) {
  return ws_check_order(userdata, pc, 39, (action & 127) | (result != 0 ? 128 : 0),
                        reinterpret_cast<u64>(barrier), data);
}
