// Records of executed instructions, their registers and accesses, as the lanes of a warp write them together.
//
// `Ring` has reserve(group, launch, words), which gives their place or ~0, and store(place, word).
#pragma once

#include "nvbit/encode.h"

struct WsEvent {
  u32 pc;
  u32 kind;
  u32 flags;
  u32 size;
  u32 encodings;
  u32 launch;
  u32 lanes;  // of the record
  u32 block;
  u32 warp;
  u32 sm;
  u64 time;
};

// A word of a record's header. The time is that of the lane that writes it.
WS_DEVICE u64 ws_header_word(const WsEvent& event, u32 length, u32 word) {
  if (word == 0)
    return event.lanes | static_cast<u64>(event.kind | length << 8 | event.encodings << 16 | event.size << 24)
                             << 32;
  if (word == 1) return event.pc | static_cast<u64>(event.block) << 32;
  if (word == 2)
    return event.launch | static_cast<u64>((event.warp & 255) | (event.flags & 255) << 8 | event.sm << 16)
                              << 32;
  return event.time;
}

template <class Words>
WS_DEVICE void ws_write_header(Words& words, const WsEvent& event, u32 length) {
#pragma unroll
  for (u32 word = 0; word < WS_EVENT_HEADER_WORDS; ++word) words.word(ws_header_word(event, length, word));
}

// An instruction that records no registers, or whose guard predicate holds in no lane.
template <class Ring>
WS_DEVICE void ws_write_instruction(const Ring& ring, const WsGroup& all, WsEvent event, u32 guarded) {
  const bool partial = guarded != all.lanes;
  event.kind = WS_INSTRUCTION_KIND;
  event.size = 0;
  event.encodings = partial ? WS_AFFINE : WS_NONE;
  const u32 length = WS_EVENT_HEADER_WORDS + (partial ? 1 : 0);
  const u64 at = ring.reserve(all, event.launch, length);
  if (at == ~0ull) return;
  WsWords<Ring> words = {all, ring, at, 0, 0};
  ws_write_header(words, event, length);
  if (partial) words.word(guarded);
  words.flush();
}

// The registers of an instruction, `event.size` of them. `group`: the lanes whose guard predicate holds.
template <class Ring>
WS_DEVICE void ws_write_registers(const Ring& ring, const WsGroup& group, WsEvent event, const u32* values) {
  u64 codes = 0;
  u32 units = 0, apart = 0;
  for (u32 i = 0; i < event.size; ++i) {
    const u32 code = ws_code_of(group, values[i]);
    codes |= static_cast<u64>(code) << 4 * i;
    units += ws_units_of(code);
    apart += code == WS_REGISTER_EACH ? 1 : 0;
  }
  const bool partial = group.lanes != event.lanes;
  const u32 before = WS_EVENT_HEADER_WORDS + (partial ? 1 : 0) + 1 + (units + 1) / 2;
  const u32 each = (group.count + 1) / 2, length = before + apart * each;
  event.kind = WS_REGISTERS_KIND;
  event.encodings = partial ? WS_AFFINE : WS_NONE;
  const u64 at = ring.reserve(group, event.launch, length);
  if (at == ~0ull) return;
  WsWords<Ring> words = {group, ring, at, 0, 0};
  ws_write_header(words, event, length);
  if (partial) words.word(group.lanes);
  words.word(codes);
  u64 place = at + before;
  for (u32 i = 0; i < event.size; ++i) {
    const u32 code = codes >> 4 * i & 15;
    ws_write_units(words, group, code, values[i]);
    if (code != WS_REGISTER_EACH) continue;
    ws_write_each(group, ring, place, values[i]);
    place += each;
  }
  words.flush();
}

// An address of each lane, as it will be written.
struct WsAddress {
  u32 encoding;
  u32 words;
  u64 base;
  i64 step;
};

WS_DEVICE WsAddress ws_plan(const WsGroup& group, u64 value) {
  WsAddress made = {};
  made.base = ws_shuffle_wide(group.lanes, value, group.leader);
  const u32 others = group.lanes & (group.lanes - 1);
  const u64 second = ws_shuffle_wide(group.lanes, value, others != 0 ? ws_first(others) : group.leader);
  made.step = static_cast<i64>(second - made.base);
  const bool follows = value == made.base + static_cast<u64>(made.step) * group.rank;
  const bool low = made.base < 1ull << 48;
  if (ws_all(group.lanes, follows) && low && made.step >= -32768 && made.step <= 32767) {
    made.encoding = WS_AFFINE;
    made.words = 1;
    return made;
  }
  const i64 offset = static_cast<i64>(value - made.base);
  if (!ws_all(group.lanes, offset >= -2147483648ll && offset <= 2147483647ll)) {
    made.encoding = WS_LIST;
    made.words = group.count;
    return made;
  }
  made.encoding = WS_OFFSETS;
  made.words = 1 + (group.count + 1) / 2;
  return made;
}

template <class Ring>
WS_DEVICE void ws_write_address(WsWords<Ring>& words, const WsAddress& address, u64 value) {
  const WsGroup& group = words.group;
  if (address.encoding == WS_AFFINE)
    return words.word(address.base | static_cast<u64>(address.step & 0xffff) << 48);
  if (address.encoding == WS_OFFSETS) words.word(address.base);
  words.flush();
  if (address.encoding == WS_OFFSETS) {
    ws_write_each(group, words.ring, words.place, static_cast<u32>(value - address.base));
    words.place += (group.count + 1) / 2;
  } else {
    words.ring.store(words.place + group.rank, value);
    words.place += group.count;
  }
}

// An address of each lane of a whole warp that is linear in the lane's number, as nearly all are.
struct WsWhole {
  u32 encoding;  // of operand A, as it stands in the record's encodings; 0 where it is not linear
  u32 words;
  u64 own;  // the word that this lane would write
};

// The terms of a linear function in at most 24 bits; false where there are none.
WS_DEVICE bool ws_whole_terms(u32 lane, u64 value, u64 base, u32* term, bool* sum) {
  const u32 low = static_cast<u32>(base), high = static_cast<u32>(base >> 48);
  u32 offset = 0, wide = high;
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    term[bit] = ws_shuffle(~0u, static_cast<u32>(value), 1u << bit) - low;
    offset += (lane >> bit & 1) != 0 ? term[bit] : 0;
    wide |= (term[bit] + 0x800000u) >> 24;
  }
  *sum = ws_all(~0u, wide == 0 && value == base + static_cast<i64>(static_cast<int>(offset)));
  if (*sum) return true;
  offset = 0;
  wide = high;
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    term[bit] = (term[bit] + low) ^ low;
    offset ^= (lane >> bit & 1) != 0 ? term[bit] : 0;
    wide |= term[bit] >> 24;
  }
  return ws_all(~0u, wide == 0 && value == (base ^ offset));
}

// `word`: which of the words is this lane's.
WS_DEVICE WsWhole ws_plan_whole(u32 lane, u32 word, u64 value) {
  const u64 base = ws_shuffle_wide(~0u, value, 0);
  u32 term[5], bent = 0, large = 0;
  bool sum;
  if (!ws_whole_terms(lane, value, base, term, &sum)) return {0, 0, 0};
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    bent |= term[bit] ^ (term[0] << bit);
    large |= (sum ? term[bit] + 0x8000u : term[bit]) >> 16;
  }
  const u64 first = base | static_cast<u64>(term[0]) << 48;
  if (sum && bent == 0 && term[0] + 0x8000u < 0x10000u) return {WS_AFFINE, 1, first};
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) term[bit] &= large == 0 ? 0xffff : 0xffffff;
  const u32 form = sum ? 0 : 1;
  if (large == 0) {
    const u64 last = term[1] | static_cast<u64>(term[2]) << 16 | static_cast<u64>(term[3]) << 32 |
                     static_cast<u64>(term[4]) << 48;
    return {WS_LINEAR_16 << 6 | form, 2, word == 0 ? first : last};
  }
  const u64 second = term[0] >> 16 | static_cast<u64>(term[1]) << 8 | static_cast<u64>(term[2]) << 32 |
                     static_cast<u64>(term[3]) << 56;
  const u64 last = term[3] >> 8 | static_cast<u64>(term[4]) << 16;
  return {WS_LINEAR_24 << 6 | form, 3, word == 0 ? first : word == 1 ? second : last};
}

// A memory access of a whole warp: each of the first lanes writes a word. False, and nothing is written,
// where its addresses are not linear.
template <class Ring>
WS_DEVICE bool ws_write_whole_access(const Ring& ring, u32 lane, WsEvent event, u64 a, u64 b, bool has_b) {
  const WsWhole first = ws_plan_whole(lane, lane - WS_EVENT_HEADER_WORDS, a);
  if (first.encoding == 0) return false;
  u64 own = first.own;
  u32 length = WS_EVENT_HEADER_WORDS + first.words;
  event.encodings = first.encoding;
  if (has_b) {
    const WsWhole second = ws_plan_whole(lane, lane - length, b);
    if (second.encoding == 0) return false;
    own = lane >= length ? second.own : own;
    length += second.words;
    event.encodings |= (second.encoding & 3) << 2 | second.encoding >> 6 << 4;
  }
#pragma unroll
  for (u32 word = 0; word < WS_EVENT_HEADER_WORDS; ++word)
    own = lane == word ? ws_header_word(event, length, word) : own;
  const u64 at = ring.reserve({~0u, lane, 0, 32, lane}, event.launch, length);
  if (at != ~0ull && lane < length) ring.store(at + lane, own);
  return true;
}

// A memory access; `b` of a copy alone.
template <class Ring>
WS_DEVICE void ws_write_access(const Ring& ring, const WsGroup& group, WsEvent event, u64 a, u64 b,
                               bool has_b) {
  const WsAddress first = ws_plan(group, a);
  const WsAddress second = has_b ? ws_plan(group, b) : WsAddress{};
  event.encodings = first.encoding | second.encoding << 2;
  const u32 length = WS_EVENT_HEADER_WORDS + first.words + second.words;
  const u64 at = ring.reserve(group, event.launch, length);
  if (at == ~0ull) return;
  WsWords<Ring> words = {group, ring, at, 0, 0};
  ws_write_header(words, event, length);
  ws_write_address(words, first, a);
  if (has_b) ws_write_address(words, second, b);
  words.flush();
}
