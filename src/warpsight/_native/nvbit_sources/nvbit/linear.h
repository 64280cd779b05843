// Addresses of a whole warp that are linear in the bits of the lane's number, as those of tiles are.
#pragma once

#include "nvbit/warp.h"
#include "sanitizer/event_format.h"

// An address of each lane of a whole warp that is linear in the lane's number, as nearly all are.
struct WsWhole {
  u32 encoding;  // of operand A, as it is in the record's encodings; 0 where it is not linear
  u32 words;
  u64 own;  // the word that this lane would write
};

// Linear addresses whose terms take 24 bits each: seldom.
WS_SELDOM WsWhole ws_plan_wide(u32 lane, u32 word, u64 value) {
  const u64 base = ws_shuffle_wide(~0u, value, 0);
  const u32 start = static_cast<u32>(base);
  u32 term[5], wide = static_cast<u32>(base >> 48), reach = wide, sum = 0, either = 0;
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    const bool set = (lane >> bit & 1) != 0;
    term[bit] = ws_shuffle(~0u, static_cast<u32>(value), 1u << bit);
    sum += set ? term[bit] - start : 0;
    either ^= set ? term[bit] ^ start : 0;
    wide |= (term[bit] - start + 0x800000u) >> 24;
    reach |= (term[bit] ^ start) >> 24;
  }
  const bool adds = ws_all(~0u, wide == 0 && value == base + static_cast<i64>(static_cast<int>(sum)));
  if (!adds && !ws_all(~0u, reach == 0 && value == (base ^ either))) return {0, 0, 0};
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) term[bit] = (adds ? term[bit] - start : term[bit] ^ start) & 0xffffff;
  const u64 first = base | static_cast<u64>(term[0]) << 48;
  const u64 second = term[0] >> 16 | static_cast<u64>(term[1]) << 8 | static_cast<u64>(term[2]) << 32 |
                     static_cast<u64>(term[3]) << 56;
  const u64 last = term[3] >> 8 | static_cast<u64>(term[4]) << 16;
  return {WS_LINEAR_24 << 6 | (adds ? 0u : 1u), 3, word == 0 ? first : word == 1 ? second : last};
}

// `word`: which of the words is this lane's. A function is linear where each lane's lowest bit adds to the
// lane without that bit what it adds to lane 0: lane 13 to lane 12 what lane 1 adds to lane 0.
WS_DEVICE WsWhole ws_plan_whole(u32 lane, u32 word, u64 value) {
  const u64 base = ws_shuffle_wide(~0u, value, 0);
  const u32 low = static_cast<u32>(value), start = static_cast<u32>(base);
  const bool near = base >> 48 == 0 && static_cast<i64>(value - base) == static_cast<int>(low - start);
  const u32 step = ws_shuffle(~0u, low, 1) - start;
  if (ws_all(~0u, near && low - start == step * lane && step + 0x8000u < 0x10000u))
    return {WS_AFFINE, 1, base | static_cast<u64>(step) << 48};
  const u32 without = ws_shuffle(~0u, low, lane & (lane - 1)),
            lowest = ws_shuffle(~0u, low, lane & (0 - lane));
  const bool adds =
      ws_all(~0u, near && low - without == lowest - start && lowest - start + 0x8000u < 0x10000u);
  const bool same = base >> 48 == 0 && (value ^ base) >> 32 == 0;
  if (!adds && !ws_all(~0u, same && (low ^ without) == (lowest ^ start) && (lowest ^ start) < 0x10000u))
    return ws_plan_wide(lane, word, value);
  // Lanes 2 and 8 gather the terms of two bits each.
  const u32 term = (adds ? low - start : low ^ start) & 0xffff;
  const u32 two = term | ws_shuffle(~0u, term, 2 * lane & 31) << 16;
  const u32 first = ws_shuffle(~0u, two, word == 0 ? 1 : 2), last = ws_shuffle(~0u, two, 8);
  return {WS_LINEAR_16 << 6 | (adds ? 0u : 1u), 2,
          word == 0 ? base | static_cast<u64>(first) << 48 : first | static_cast<u64>(last) << 32};
}
