// Values of a register, and addresses, in as few words as their pattern takes. What lanes of a warp hold is
// most often one value, or a linear function of the lane's number: layouts of tiles are sums or exclusive ors
// of a term for each bit of it.
#pragma once

#include "nvbit/tool_format.h"
#include "nvbit/warp.h"

constexpr u32 kNoLinear = 0, kSum = 1, kExclusiveOr = 2;

// The terms of a linear function; only lanes with a single bit set know them, so those without are 0.
struct WsLinear {
  u32 form;
  u32 base;
  u32 sum[5];
  u32 either[5];
};

WS_DEVICE WsLinear ws_linear(const WsGroup& group, u32 value) {
  WsLinear made = {};
  if ((group.lanes & 1) == 0) return made;
  made.base = ws_shuffle(group.lanes, value, 0);
  u32 sum = made.base, either = made.base;
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    const bool known = group.lanes >> (1u << bit) & 1;
    const u32 there = ws_shuffle(group.lanes, value, known ? 1u << bit : 0);
    made.sum[bit] = there - made.base;
    made.either[bit] = there ^ made.base;
    if (group.lane >> bit & 1) {
      sum += made.sum[bit];
      either ^= made.either[bit];
    }
  }
  if (ws_all(group.lanes, sum == value))
    made.form = kSum;
  else if (ws_all(group.lanes, either == value))
    made.form = kExclusiveOr;
  return made;
}

WS_DEVICE u32 ws_second(const WsGroup& group, u32 value) {
  const u32 others = group.lanes & (group.lanes - 1);
  return ws_shuffle(group.lanes, value, others != 0 ? ws_first(others) : group.leader);
}

// How a register is written: the same for all lanes.
WS_DEVICE u32 ws_code_of(const WsGroup& group, u32 value) {
  const u32 base = ws_shuffle(group.lanes, value, group.leader);
  if (ws_all(group.lanes, value == base)) return base != 0 ? WS_REGISTER_ONE : WS_REGISTER_ZERO;
  const u32 step = ws_second(group, value) - base;
  if (ws_all(group.lanes, value == base + step * group.rank)) return WS_REGISTER_AFFINE;
  if (group.count <= 6) return WS_REGISTER_EACH;
  const WsLinear linear = ws_linear(group, value);
  if (linear.form != kNoLinear) return linear.form == kSum ? WS_REGISTER_ADD : WS_REGISTER_XOR;
  const u32 own = ws_equal(group.lanes, value);
  const u32 distinct = ws_count(ws_ballot(group.lanes, ws_first(own) == group.lane));
  for (u32 planes = 1; planes <= 4; ++planes)
    if (distinct <= 1u << planes && (1u << planes) + planes < group.count) return WS_REGISTER_FEW + planes;
  return WS_REGISTER_EACH;
}

// 0, 1, 2, 6, 6, 3, 6, 11, 20 and 0 units.
WS_DEVICE u32 ws_units_of(u32 code) { return static_cast<u32>(0x145986630820ull >> 5 * code & 31); }

// Writes words of a record so that the lanes store them together: word w is kept by the lane of rank w modulo
// their count until each lane has one. `Ring` is called as ring.store(place, word).
template <class Ring>
struct WsWords {
  const WsGroup& group;
  const Ring& ring;
  u64 place;  // of the word that rank 0 keeps
  u32 units;  // kept so far
  u64 own;

  WS_INLINE void unit(u32 value) {
    if (units / 2 == group.rank) own |= static_cast<u64>(value) << (units % 2 * 32);
    if (++units == 2 * group.count) flush();
  }
  WS_INLINE void word(u64 value) {
    unit(static_cast<u32>(value));
    unit(static_cast<u32>(value >> 32));
  }
  WS_INLINE void flush() {
    const u32 words = (units + 1) / 2;
    if (group.rank < words) ring.store(place + group.rank, own);
    place += words;
    units = 0;
    own = 0;
  }
};

template <class Words>
WS_DEVICE void ws_write_units(Words& words, const WsGroup& group, u32 code, u32 value) {
  if (code == WS_REGISTER_ZERO || code == WS_REGISTER_EACH) return;
  const u32 base = ws_shuffle(group.lanes, value, group.leader);
  if (code <= WS_REGISTER_AFFINE) {
    words.unit(base);
    if (code == WS_REGISTER_AFFINE) words.unit(ws_second(group, value) - base);
  } else if (code <= WS_REGISTER_XOR) {
    const WsLinear linear = ws_linear(group, value);
    words.unit(linear.base);
    for (u32 bit = 0; bit < 5; ++bit)
      words.unit(code == WS_REGISTER_ADD ? linear.sum[bit] : linear.either[bit]);
  } else {
    const u32 planes = code - WS_REGISTER_FEW;
    const u32 first = ws_first(ws_equal(group.lanes, value));
    const u32 firsts = ws_ballot(group.lanes, first == group.lane);
    u32 left = firsts;
    for (u32 i = 0; i < 1u << planes; ++i) {
      words.unit(left != 0 ? ws_shuffle(group.lanes, value, ws_first(left)) : 0);
      left &= left - 1;
    }
    const u32 number = ws_count(firsts & ((1u << first) - 1));
    for (u32 plane = 0; plane < planes; ++plane)
      words.unit(ws_ballot(group.lanes, (number >> plane & 1) != 0));
  }
}

// Two lanes to a word: the first of each pair writes for both.
template <class Ring>
WS_DEVICE void ws_write_each(const WsGroup& group, const Ring& ring, u64 place, u32 value) {
  const u32 above = group.lanes & ~((2u << group.lane) - 1);
  const u32 next = ws_shuffle(group.lanes, value, above != 0 ? ws_first(above) : group.lane);
  if (group.rank % 2 == 0)
    ring.store(place + group.rank / 2, value | (above != 0 ? static_cast<u64>(next) << 32 : 0));
}
