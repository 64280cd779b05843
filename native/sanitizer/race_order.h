// What orders accesses: the epochs of warps, and what a warp knows of others.
//
// A release hands on what a warp knows and ends its epoch; an acquire takes over what others handed on.
// Within a block that is a vector clock: one number for each warp, and one for each mbarrier (its phases that
// are known to be over). Between blocks it is scalar: a fence that reaches other blocks marks the epochs
// before it, of all warps that its warp knows of, and takes a number of a common clock; who then reads a flag
// that another block wrote, and passes a fence itself, knows all numbers until then. So an unrelated flag
// counts as order; a fence that is missing on either side does not. An access is compared with what it finds
// in the order in which the device ran; where the state does not say, accesses count as ordered.
#pragma once

#include "sanitizer/race_layout.h"
#include "sanitizer/race_memory.h"

// Counts skipped accesses, and reports them whenever the count has doubled; the including file defines it.
struct WsMe;
WS_APART void leave_out(WsMe me, u32 cause);

// A warp at an instruction.
struct WsMe {
  const void* launch;  // for reports
  const WsRace* race;
  WsWarp* warp;
  u32 block, warp_of_block;
  u32 index;  // of the warp in the launch
  u32 facts;
  u32 lanes;        // that came together
  u32 rank, count;  // of this lane among them
};

#ifdef __CUDACC__
// The first lane's value. What lanes find in memory may differ: other lanes of the warp, which did not come
// together with them, change it meanwhile. Lanes that decide by it whether to meet have to decide alike.
WS_HERE u32 from_first(const WsMe& me, u32 value) {
  return __shfl_sync(me.lanes, value, __ffs(me.lanes) - 1);
}
WS_HERE void meet(const WsMe& me) { __syncwarp(me.lanes); }
// Shared memory of a block, including the driver's reserved part.
WS_HERE u32 shared_bytes() {
  u32 bytes;
  asm("mov.u32 %0, %%total_smem_size;" : "=r"(bytes));
  return bytes + 1024;
}
#else
WS_HERE u32 from_first(const WsMe&, u32 value) { return value; }
WS_HERE void meet(const WsMe&) {}
WS_HERE u32 shared_bytes() { return 1 << 16; }
#endif

// What tells a warp from those that had its place before: rows are counted from 1 on.
WS_HERE u32 stamp_of(const WsRace* race, u32 index) { return race->first_row + index; }

WS_HERE WsRow* row_of(const WsRace* race, u32 index) {
  return race->rows + ((race->first_row + index) & (WS_ROWS - 1));
}

WS_HERE u32 slot_number(const WsRace* race, u32 block) { return (race->block_base + block) & (WS_SLOTS - 1); }

WS_HERE WsSlot* slot_of(const WsRace* race, u32 block) { return race->slots + slot_number(race, block); }

WS_HERE WsBarrier* barrier_of(const WsMe& me, u32 number) {
  return slot_of(me.race, me.block)->barriers + (number & 15);
}

WS_HERE u64 block_number(const WsMe& me) {
  return static_cast<u64>(me.race->block_base + me.block + 1) << 32;
}

// The cluster of a block, by the number of its first block in each direction.
WS_HERE u32 cluster_of(const WsRace* race, u32 block) {
  const u32 x = block % race->grid[0], y = block / race->grid[0] % race->grid[1],
            z = block / race->grid[0] / race->grid[1];
  const u32 first_x = x - x % race->cluster[0], first_y = y - y % race->cluster[1],
            first_z = z - z % race->cluster[2];
  return first_x + race->grid[0] * (first_y + race->grid[1] * first_z);
}

// The block of a rank in this block's cluster.
WS_HERE u32 block_of_rank(const WsMe& me, u32 rank) {
  const u32* size = me.race->cluster;
  const u32 x = rank % size[0], y = rank / size[0] % size[1], z = rank / size[0] / size[1];
  return cluster_of(me.race, me.block) + x + me.race->grid[0] * (y + me.race->grid[1] * z);
}

WS_HERE bool in_cluster(const WsRace* race) {
  return race->cluster[0] * race->cluster[1] * race->cluster[2] > 1;
}

// The smallest power of two that is not less.
WS_HERE u32 logarithm(u32 value) {
  u32 found = 0;
  while (1u << found < value) ++found;
  return found;
}

// The warp's state, made at its first instruction; false when the warp is not watched.
WS_HERE bool begin(WsMe* me) {
  const WsRace* race = me->race;
  me->index = me->block * race->warps + me->warp_of_block;
  if (me->index >= race->watched) {
    if (me->rank == 0) leave_out(*me, WS_MANY_WARPS);
    return false;
  }
  me->warp = slot_of(race, me->block)->warps + me->warp_of_block;
  const u32 stamp = stamp_of(race, me->index);
  if (from_first(*me, me->warp->stamp) == stamp) return true;
  WsRow* row = row_of(race, me->index);
  const u32 used = from_first(*me, load(&row->tag));
  if (used == race->tag) {  // a later block has its state
    if (me->rank == 0) leave_out(*me, WS_SLOT_LOST);
    return false;
  }
  auto* words = reinterpret_cast<u32*>(me->warp);
  for (u32 i = me->rank; i < sizeof(WsWarp) / sizeof(u32); i += me->count) words[i] = 0;
  auto* others = reinterpret_cast<u32*>(row);
  for (u32 i = me->rank; i < sizeof(WsRow) / sizeof(u32); i += me->count) save(others + i, 0);
  meet(*me);
  if (me->rank == 0) {
    save(&row->tag, race->tag);
    me->warp->epoch = 1;
    me->warp->shared_shift = logarithm(shared_bytes() / 4);
    me->warp->stamp = stamp;
  }
  meet(*me);
  return true;
}

// The state of a warp that was made before.
WS_HERE bool begin_again(WsMe* me) {
  me->index = me->block * me->race->warps + me->warp_of_block;
  me->warp = slot_of(me->race, me->block)->warps + me->warp_of_block;
  return me->warp->stamp == stamp_of(me->race, me->index);
}

// The epoch ends; called by all lanes.
WS_HERE void next_epoch(const WsMe& me) {
  meet(me);
  if (me.rank == 0 && ++me.warp->epoch >= WS_LARGEST_EPOCH) {
    me.warp->epoch = WS_LARGEST_EPOCH;  // no accesses are compared any more
    leave_out(me, WS_MANY_EPOCHS);
  }
  meet(me);
}

WS_HERE void acquired(const WsMe& me) {
  if (me.rank == 0) me.warp->acquired = me.warp->epoch;
}

// Hands on what this warp knows.
WS_HERE void hand_on(const WsMe& me, u64* held) {
  const u64 number = block_number(me);
  for (u32 i = me.rank; i < WS_COMPONENTS; i += me.count) {
    const u32 value = i == me.warp_of_block ? me.warp->epoch : me.warp->known[i];
    if (value != 0) raise(held + i, number | value);
  }
  fence_block();
}

WS_HERE void take_over(const WsMe& me, const u64* held) {
  const u64 number = block_number(me);
  for (u32 i = me.rank; i < WS_COMPONENTS; i += me.count) {
    const u64 value = load(held + i);
    if (value >> 32 == number >> 32 && static_cast<u32>(value) > me.warp->known[i])
      me.warp->known[i] = static_cast<u32>(value);
  }
}

// Marks the epochs that this warp knows of as released.
WS_HERE void release(const WsMe& me, bool to_device) {
  u32 now = 0;
  if (me.rank == 0) now = add(me.race->clock, 1u) + 1;
  now = from_first(me, now);
  for (u32 i = me.rank; i < me.race->warps; i += me.count) {
    const u32 epoch = i == me.warp_of_block ? me.warp->epoch : me.warp->known[i];
    if (epoch == 0) continue;
    WsRow* row = row_of(me.race, me.block * me.race->warps + i);
    raise(&row->fenced, epoch);
    if (!to_device) continue;
    const u32 before = raise(&row->fenced_device, epoch);
    if (before >= epoch) continue;
    save(&row->fenced_before, before);
    save(&row->fenced_at, now);
  }
  fence();
}

// The effect of the fences between this instruction and the one before.
WS_HERE void pass_fences(const WsMe& me) {
  WsWarp* warp = me.warp;
  const u32 releases = WS_RELEASES(me.facts), acquires = WS_ACQUIRES(me.facts);
  bool ends = false;
  if (releases != 0) {
    release(me, releases > 1);
    ends = true;
  }
  const bool found = acquires > 1 && warp->known[WS_FOUND_DEVICE] > warp->known[WS_KNOWN_DEVICE];
  const bool far = from_first(me, found) != 0;
  if (me.rank == 0 && far) warp->known[WS_KNOWN_DEVICE] = warp->known[WS_FOUND_DEVICE];
  if (far) acquired(me);
  if (WS_PROXY_FENCE(me.facts) != 0 && me.rank == 0) {
    warp->proxied = warp->epoch;
    save(&row_of(me.race, me.index)->proxied, warp->epoch);
  }
  if (ends || far || WS_PROXY_FENCE(me.facts) != 0) next_epoch(me);
}

// Arrives at the named barriers behind an instruction.
WS_HERE void arrive_behind(const WsMe& me) {
  for (u32 number = 1; number < 11; ++number)
    if ((WS_ARRIVES(me.facts) >> (number - 1) & 1) != 0) hand_on(me, barrier_of(me, number)->held[0]);
  next_epoch(me);
}

// Which of a barrier's two clocks a turn has: one where the warps may not all come.
WS_HERE u32 turn_of(const WsMe& me, u32 number, u32 threads) {
  const bool all = threads == 0 || threads == me.race->warps * 32;
  if (!all || (me.race->one_way >> (number & 15) & 1) != 0) return 0;
  return me.warp->turns[number & 15] & 1;
}

WS_HERE void barrier_arrive(const WsMe& me, u32 number, u32 threads) {
  WsWarp* warp = me.warp;
  const bool again = (warp->barrier_lanes & me.lanes) != 0 || warp->barrier_lanes == 0;
  meet(me);
  if (me.rank == 0) {
    warp->barrier_lanes = again ? me.lanes : warp->barrier_lanes | me.lanes;
    if (again) ++warp->turns[number & 15];
  }
  meet(me);
  hand_on(me, barrier_of(me, number)->held[turn_of(me, number, threads)]);
  next_epoch(me);
}

// Takes over what the warps of the block know now, for barriers whose arrivals are not visible.
WS_HERE void take_everything(const WsMe& me) {
  const WsWarp* warps = slot_of(me.race, me.block)->warps;
  for (u32 i = me.rank; i < me.race->warps; i += me.count)
    if (i != me.warp_of_block) me.warp->known[i] = load(&warps[i].epoch);
}

WS_HERE void barrier_pass(const WsMe& me, u32 number, u32 threads) {
  if (number > 10 && (me.race->one_way >> (number & 15) & 1) != 0) take_everything(me);
  take_over(me, barrier_of(me, number)->held[turn_of(me, number, threads)]);
  acquired(me);
  if (me.rank == 0) me.warp->warp_epoch = me.warp->epoch;
  next_epoch(me);
}

WS_HERE void warp_pass(const WsMe& me) {
  meet(me);
  if (me.rank == 0) me.warp->warp_epoch = me.warp->epoch;
  next_epoch(me);
}

WS_HERE void cluster_arrive(const WsMe& me) {
  WsWarp* warp = me.warp;
  const bool again = (warp->cluster_lanes & me.lanes) != 0 || warp->cluster_lanes == 0;
  meet(me);
  if (me.rank == 0) {
    warp->cluster_lanes = again ? me.lanes : warp->cluster_lanes | me.lanes;
    if (again) ++warp->cluster_arrivals;
    save(&row_of(me.race, me.index)->arrived[warp->cluster_arrivals & 1], warp->epoch);
  }
  fence();
  next_epoch(me);
}

WS_HERE void cluster_pass(const WsMe& me) {
  acquired(me);
  if (me.rank == 0) {
    me.warp->cluster_waits = me.warp->cluster_arrivals;
    me.warp->warp_epoch = me.warp->epoch;
  }
  next_epoch(me);
}

// A group of cp.async ends.
WS_HERE void commit(const WsMe& me) {
  meet(me);
  if (me.rank == 0) me.warp->committed[me.warp->commits++ % 4] = me.warp->epoch;
  next_epoch(me);
}

// All groups but the last `left` are done.
WS_HERE void wait_for_copies(const WsMe& me, u32 left) {
  WsWarp* warp = me.warp;
  if (me.rank == 0 && warp->commits > left) {
    const u32 done = left < 4 ? warp->committed[(warp->commits - 1 - left) % 4] : warp->epoch;
    raise(&row_of(me.race, me.index)->copied, done);
  }
}

// All copies of this warp so far are handed to an mbarrier.
WS_HERE void copies_to_barrier(const WsMe& me) {
  if (me.rank == 0) raise(&row_of(me.race, me.index)->copied, me.warp->epoch);
}
