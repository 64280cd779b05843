// Where the lanes of a warp put a record: a ring in host memory, which a thread of ours drains
// (sanitizer/ring.h). The tests compile it for the host.
#pragma once

#include "nvbit/tool_format.h"
#include "nvbit/warp.h"

// Signed: a reader that gave up claims to be far ahead.
WS_DEVICE bool ws_has_room(const WsTool* tool, u64 end, u64 tail) {
  return static_cast<i64>(end - tail) <= static_cast<i64>(tool->mask + 1);
}

// How far the reader was when last looked at is kept on the device: a look at the host's memory takes a
// microsecond.
WS_SELDOM void ws_wait_for_room(const WsTool* tool, u64 end) {
  u64 tail = *tool->tail;
  while (!ws_has_room(tool, end, tail)) {
    ws_sleep();
    tail = *tool->tail;
  }
  *tool->tail_seen = tail;
}

// Whether `every` and `first` keep a launch's next record.
WS_SELDOM bool ws_kept(const WsTool* tool, u32 launch) {
  u64* const counter = tool->counters + (launch & tool->counter_mask);
  const u64 begin = static_cast<u64>(launch) << 32;
  if ((*static_cast<volatile u64*>(counter) >> 32) != launch) ws_raise(counter, begin);
  const u64 number = ws_add(counter, 1) - begin;
  return number % tool->every == 0 && number / tool->every < tool->first;
}

struct WsRing {
  const WsTool* tool;

  // The place of a record's words, ~0 when it is left out. Waits while the ring is full.
  WS_INLINE u64 reserve(const WsGroup& group, u32 launch, u32 words) const {
    return place(group, words, tool->thins == 0 || group.lane != group.leader || ws_kept(tool, launch));
  }

  WS_INLINE u64 place(const WsGroup& group, u32 words, bool kept) const {
    u64 at = ~0ull;
    if (group.lane == group.leader && kept) {
      // Looked at first, so that this and the addition are on their way together.
      const u64 seen = *tool->tail_seen;
      at = ws_add(tool->head, words);
      if (!ws_has_room(tool, at + words, seen)) ws_wait_for_room(tool, at + words);
    }
    return ws_shuffle_wide(group.lanes, at, group.leader);
  }

  // Every word of a record is written once, whole, and is not zero: the reader takes a record when all of it
  // is there, and no fence is needed, which across the bus costs a microsecond.
  WS_INLINE void store(u64 at, u64 word) const {
    volatile u64* const place = tool->ring + (at & tool->mask);
    *place = word != 0 ? word : tool->zero;
  }
};

// The same for what a kept record refers to: it is never left out.
struct WsRingOfMaps {
  WsRing ring;

  WS_INLINE u64 reserve(const WsGroup& group, u32, u32 words) const { return ring.place(group, words, true); }
  WS_INLINE void store(u64 at, u64 word) const { ring.store(at, word); }
};
