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

template <class Words>
WS_DEVICE void ws_write_header(Words& words, const WsEvent& event, u32 length) {
  const WsGroup& group = words.group;
  words.unit(event.lanes);
  words.unit(event.kind | length << 8 | event.encodings << 16 | event.size << 24);
  words.unit(event.pc);
  words.unit(event.block);
  words.unit(event.launch);
  words.unit((event.warp & 255) | (event.flags & 255) << 8 | event.sm << 16);
  words.unit(ws_shuffle(group.lanes, static_cast<u32>(event.time), group.leader));
  words.unit(ws_shuffle(group.lanes, static_cast<u32>(event.time >> 32), group.leader));
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
  u32 encoding;  // of operand A, as it stands in the record's encodings
  u32 words;
  u64 base;
  i64 step;
  WsLinear linear;
};

WS_DEVICE u64 ws_shuffle_wide(u32 lanes, u64 value, u32 lane) {
  return ws_shuffle(lanes, static_cast<u32>(value), lane) |
         static_cast<u64>(ws_shuffle(lanes, static_cast<u32>(value >> 32), lane)) << 32;
}

// Bits that every term of a linear function takes: 16 or 24; 0 where they are more.
WS_DEVICE u32 ws_bits_of(const WsLinear& linear) {
  u32 large16 = 0, large24 = 0;
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    const u32 term = linear.form == kSum ? linear.sum[bit] + 0x8000u : linear.either[bit];
    const u32 wide = linear.form == kSum ? linear.sum[bit] + 0x800000u : linear.either[bit];
    large16 |= term >> 16;
    large24 |= wide >> 24;
  }
  return large16 == 0 ? 16 : large24 == 0 ? 24 : 0;
}

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
  if (!low || group.leader != 0 || !ws_all(group.lanes, value >> 32 == made.base >> 32)) return made;
  // Linear functions are found in the low halves: none may pass into the high ones.
  const u32 margin = static_cast<u32>(made.base) + (1u << 27);
  if (made.base >> 32 != 0 && margin < 1u << 28) return made;
  made.linear = ws_linear(group, static_cast<u32>(value));
  const u32 bits = made.linear.form != kNoLinear ? ws_bits_of(made.linear) : 0;
  if (bits == 0 || bits / 8 >= made.words) return made;
  made.encoding =
      (bits == 16 ? WS_LINEAR_16 : WS_LINEAR_24) << 6 | (made.linear.form == kExclusiveOr ? 1 : 0);
  made.words = bits == 16 ? 2 : 3;
  return made;
}

template <class Words>
WS_DEVICE void ws_write_linear(Words& words, const WsAddress& address) {
  const u32 bits = address.words == 2 ? 16 : 24;
  u64 low = address.base & 0xffffffffffffull, high = 0, last = 0;
#pragma unroll
  for (u32 bit = 0; bit < 5; ++bit) {
    const u64 term = (address.linear.form == kSum ? address.linear.sum[bit] : address.linear.either[bit]) &
                     ((1u << bits) - 1);
    const u32 at = 48 + bit * bits;  // of 128 or 192 bits
    if (at < 64) low |= term << at;
    if (at < 64 && at + bits > 64) high |= term >> (64 - at);
    if (at >= 64 && at < 128) high |= term << (at - 64);
    if (at >= 64 && at < 128 && at + bits > 128) last |= term >> (128 - at);
    if (at >= 128) last |= term << (at - 128);
  }
  words.word(low);
  words.word(high);
  if (bits == 24) words.word(last);
}

template <class Ring>
WS_DEVICE void ws_write_address(WsWords<Ring>& words, const WsAddress& address, u64 value) {
  const WsGroup& group = words.group;
  if (address.encoding >> 6 != 0) return ws_write_linear(words, address);
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

// A memory access; `b` of a copy alone.
template <class Ring>
WS_DEVICE void ws_write_access(const Ring& ring, const WsGroup& group, WsEvent event, u64 a, u64 b,
                               bool has_b) {
  const WsAddress first = ws_plan(group, a);
  const WsAddress second = has_b ? ws_plan(group, b) : WsAddress{};
  event.encodings = first.encoding | (second.encoding & 3) << 2 | second.encoding >> 6 << 4;
  const u32 length = WS_EVENT_HEADER_WORDS + first.words + second.words;
  const u64 at = ring.reserve(group, event.launch, length);
  if (at == ~0ull) return;
  WsWords<Ring> words = {group, ring, at, 0, 0};
  ws_write_header(words, event, length);
  ws_write_address(words, first, a);
  if (has_b) ws_write_address(words, second, b);
  words.flush();
}
