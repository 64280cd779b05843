// mbarriers: what is handed on in each of their phases.
//
// A wait says the parity of a phase. What it guarantees is the earliest phase of that parity that the warp
// does not know to be over: a wait that goes through by a later phase of the same parity, as it happens to
// run, gives no more than that.
#pragma once

#include "sanitizer/race_order.h"

constexpr u32 kInit = 1, kArrive = 2, kArriveDrop = 3, kArriveNoComplete = 4, kDropNoComplete = 5, kWait = 6;

WS_HERE WsMbarrier* mbarriers_of(const WsMe& me) {
  return me.race->mbarriers + ((me.race->block_base + me.block) & (WS_MBARRIER_SLOTS - 1)) * WS_MBARRIERS;
}

// The number of an mbarrier of this block, WS_MBARRIERS when it has too many; called by one lane.
WS_HERE u32 find_mbarrier(const WsMe& me, u32 address) {
  const u64 wanted = block_number(me) | (address & 0xffffff);
  WsMbarrier* listed = mbarriers_of(me);
  for (u32 i = 0; i < WS_MBARRIERS; ++i) {
    u64 found = load(&listed[i].address);
    while (found >> 32 < wanted >> 32) {
      const u64 seen = swap_if(&listed[i].address, found, wanted);
      found = seen == found ? wanted : seen;
    }
    if (found == wanted) return i;
  }
  return WS_MBARRIERS;
}

// A word of this block's, 0 when another block left it.
WS_HERE u32 own_word(const WsMe& me, const u64* at) {
  const u64 found = load(at);
  return found >> 32 == block_number(me) >> 32 ? static_cast<u32>(found) : 0;
}

WS_HERE void set_word(const WsMe& me, u64* at, u32 value) { exchange(at, block_number(me) | value); }

// Adds to a word of this block's; what it was.
WS_HERE u32 add_word(const WsMe& me, u64* at, u32 value) {
  const u64 number = block_number(me);
  for (u64 found = load(at);;) {
    const u32 before = found >> 32 == number >> 32 ? static_cast<u32>(found) : 0;
    const u64 seen = swap_if(at, found, number | (before + value));
    if (seen == found) return before;
    found = seen;
  }
}

// Arrivals of a phase, by what is in an mbarrier as sm_90 lays it out; 0 when that is not known.
WS_HERE u32 expected_arrivals(const WsMe& me, u64 word) {
  return me.race->phases != 0 && !in_cluster(me.race) ? (0x100000u - (static_cast<u32>(word) >> 1)) & 0xfffff
                                                      : 0;
}

WS_HERE void mbarrier_init(const WsMe& me, u32 address) {
  if (me.race->has_mbarriers == 0 || me.rank != 0) return;
  const u32 number = find_mbarrier(me, address);
  if (number != WS_MBARRIERS) set_word(me, &mbarriers_of(me)[number].arrivals, 0);
}

WS_HERE void mbarrier_arrive(const WsMe& me, u32 address, u32 arrivals, u64 word) {
  u32 number = WS_MBARRIERS, phase = 0;
  if (me.race->has_mbarriers != 0 && me.rank == 0) {
    number = find_mbarrier(me, address);
    if (number != WS_MBARRIERS) {
      const u32 expected = expected_arrivals(me, word);
      const u32 before = add_word(me, &mbarriers_of(me)[number].arrivals, arrivals);
      phase = expected != 0 ? before / expected : 0;
    }
  }
  number = from_first(me, number);
  phase = from_first(me, phase);
  if (number != WS_MBARRIERS) hand_on(me, mbarriers_of(me)[number].held[phase & 3]);
  if (number == WS_MBARRIERS || in_cluster(me.race)) release(me, true);
  next_epoch(me);
}

WS_HERE void mbarrier_pass(const WsMe& me, u32 address, u32 parity, u64 word) {
  u32 number = WS_MBARRIERS, over = 0, all = 1;
  if (me.race->has_mbarriers != 0 && me.rank == 0) {
    number = find_mbarrier(me, address);
    if (number != WS_MBARRIERS) {
      const WsMbarrier* barrier = mbarriers_of(me) + number;
      const u32 expected = expected_arrivals(me, word);
      const u32 known = me.warp->known[32 + number];
      over = known + ((known + parity + 1) & 1);
      const u32 done = expected != 0 ? own_word(me, &barrier->arrivals) / expected : 0;
      all = expected == 0 || over > done;
      if (expected == 0) over = known + 1;
    }
  }
  number = from_first(me, number);
  over = from_first(me, over);
  all = from_first(me, all);
  if (number != WS_MBARRIERS) {
    const WsMbarrier* barrier = mbarriers_of(me) + number;
    for (u32 phase = 0; phase < 4; ++phase) {
      const bool last = over >= 1 && phase == ((over - 1) & 3),
                 before = over >= 2 && phase == ((over - 2) & 3);
      if (all != 0 || last || before) take_over(me, barrier->held[phase]);
    }
    meet(me);
    if (me.rank == 0 && me.warp->known[32 + number] < over) me.warp->known[32 + number] = over;
  }
  if ((number == WS_MBARRIERS || in_cluster(me.race)) && me.rank == 0) {
    const u32 now = load(me.race->clock);
    me.warp->known[WS_KNOWN_BLOCK] = now;
    me.warp->known[WS_KNOWN_DEVICE] = now;
  }
  acquired(me);
  next_epoch(me);
}

// The phase that a bulk copy belongs to, with the barrier's number: as its accesses carry it. ~0 when the
// barrier is not followed; called by one lane.
WS_HERE u32 copy_phase(const WsMe& me, u32 address, u64 word) {
  const u32 expected = expected_arrivals(me, word);
  if (me.race->has_mbarriers == 0 || expected == 0) return ~0u;
  const u32 number = find_mbarrier(me, address);
  if (number == WS_MBARRIERS) return ~0u;
  const u32 arrivals = own_word(me, &mbarriers_of(me)[number].arrivals);
  return number << 11 | ((arrivals > 0 ? (arrivals - 1) / expected : 0) & 2047);
}
