// Records of executed instructions, their registers and accesses, as the lanes of a warp write them together.
//
// `Ring` has reserve(group, launch, words), which gives their place or ~0, and store(place, word).
#pragma once

#include "nvbit/encode.h"
#include "nvbit/linear.h"

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

// The words of the addresses of a whole warp, where they are within 4 GB: an offset from the first for each
// lane.
WS_DEVICE WsWhole ws_plan_offsets(u32 word, u64 value) {
  const u64 base = ws_shuffle_wide(~0u, value, 0);
  const i64 offset = static_cast<i64>(value - base);
  if (!ws_all(~0u, offset == static_cast<int>(offset))) return {0, 0, 0};
  const u32 pair = (word - 1) * 2 & 31;
  const u64 low = ws_shuffle(~0u, static_cast<u32>(offset), pair);
  const u64 high = ws_shuffle(~0u, static_cast<u32>(offset), pair + 1);
  return {WS_OFFSETS, 17, word == 0 ? base : low | high << 32};
}

// A memory access of a whole warp, as `describe` describes it: each of the first lanes writes a word. False,
// and nothing is written, where that takes more words than there are lanes.
template <class Ring, class Describe>
WS_DEVICE bool ws_write_whole_access(const Ring& ring, u32 lane, u32 launch, const Describe& describe, u64 a,
                                     u64 b, bool has_b) {
  u64 own = 0;
  u32 length = WS_EVENT_HEADER_WORDS, encodings = 0;
#pragma unroll 1  // less code, which a warp that is alone waits for
  for (u32 operand = 0; operand <= (has_b ? 1u : 0u); ++operand) {
    const u64 value = operand == 0 ? a : b;
    WsWhole plan = ws_plan_whole(lane, lane - length, value);
    if (plan.encoding == 0 && !has_b) plan = ws_plan_offsets(lane - length, value);
    if (plan.encoding == 0) return false;
    own = lane >= length ? plan.own : own;
    length += plan.words;
    encodings |= operand == 0 ? plan.encoding : (plan.encoding & 3) << 2 | plan.encoding >> 6 << 4;
  }
  if (lane < WS_EVENT_HEADER_WORDS) {
    WsEvent event = describe();
    event.encodings = encodings;
#pragma unroll
    for (u32 word = 0; word < WS_EVENT_HEADER_WORDS; ++word)
      own = lane == word ? ws_header_word(event, length, word) : own;
  }
  const u64 at = ring.reserve({~0u, lane, 0, 32, lane}, launch, length);
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
