// A warp on the host: each lane is a context of its own, and they meet where lanes exchange values. A thread
// runs one warp at a time.
#pragma once

#include <cstdlib>
#include <memory>

#include <ucontext.h>

#include "nvbit/warp.h"

struct Warp {
  ucontext_t main, lanes[32];
  char stacks[32][1 << 16];
  u32 lane, slots[2][32], turn[32];
  bool done[32];
  void (*function)(u32 lane);
};

inline Warp& warp() {
  thread_local const auto made = std::make_unique<Warp>();
  return *made;
}

// What the lane gives, and where all of them have given theirs, what is there.
inline const u32* meet(u32 value) {
  Warp& own = warp();
  const u32 lane = own.lane;
  u32* const slots = own.slots[own.turn[lane]++ % 2];
  slots[lane] = value;
  swapcontext(&own.lanes[lane], &own.main);
  return slots;
}

template <class Function>
u32 gather(u32 lanes, u32 value, Function function) {
  const u32* const slots = meet(value);
  u32 found = 0;
  for (u32 lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) != 0 && function(slots[lane])) found |= 1u << lane;
  return found;
}

u32 ws_shuffle(u32, u32 value, u32 lane) { return meet(value)[lane]; }
u32 ws_ballot(u32 lanes, bool holds) {
  return gather(lanes, holds ? 1 : 0, [](u32 slot) { return slot != 0; });
}
bool ws_all(u32 lanes, bool holds) { return ws_ballot(lanes, holds) == lanes; }
u32 ws_equal(u32 lanes, u32 value) {
  return gather(lanes, value, [value](u32 slot) { return slot == value; });
}

inline void lane_runs() {
  Warp& own = warp();
  const u32 lane = own.lane;
  own.function(lane);
  own.done[lane] = true;
}

// Has the lanes run a function together.
inline void run_warp(u32 lanes, void (*function)(u32 lane)) {
  Warp& own = warp();
  own.function = function;
  for (u32 lane = 0; lane < 32; ++lane) {
    own.done[lane] = (lanes >> lane & 1) == 0;
    own.turn[lane] = 0;
    getcontext(&own.lanes[lane]);
    own.lanes[lane].uc_stack.ss_sp = own.stacks[lane];
    own.lanes[lane].uc_stack.ss_size = sizeof own.stacks[lane];
    own.lanes[lane].uc_link = &own.main;
    makecontext(&own.lanes[lane], lane_runs, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (u32 lane = 0; lane < 32; ++lane) {
      if (own.done[lane]) continue;
      any = true;
      own.lane = lane;
      swapcontext(&own.main, &own.lanes[lane]);
    }
  }
}
