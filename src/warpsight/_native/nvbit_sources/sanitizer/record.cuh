// What an instruction does, as a record of the ring: the lanes that called together write one.
#pragma once

#include "nvbit/linear.h"
#include "sanitizer/ring.cuh"

namespace {

constexpr u32 kRead = 1, kWrite = 2, kPrefetch = 8;  // Sanitizer_DeviceMemoryFlags
constexpr u64 kBaseLimit = 1ull << 48;
constexpr u32 kCopyAsync = 14;  // the only kind whose operand B may be linear

// An operand as it will be written.
struct Plan {
  u32 encoding;  // as it stands in bits 0-1 and 6-7 of the record's encodings
  u32 words;
  u64 base;  // of linear addresses the word that this lane writes
  i64 step;
};

DEVICE Plan plan(const Group& group, u64 value, bool may_be_linear) {
  Plan made;
  made.base = __shfl_sync(group.lanes, value, group.leader);
  const u32 others = group.lanes & (group.lanes - 1);
  const u64 second = __shfl_sync(group.lanes, value, others != 0 ? __ffs(others) - 1 : group.leader);
  made.step = static_cast<i64>(second - made.base);
  const bool follows = value == made.base + static_cast<u64>(made.step) * group.rank;
  const bool small = made.step >= -32768 && made.step <= 32767 && made.base < kBaseLimit;
  const i64 offset = static_cast<i64>(value - made.base);
  const bool near = offset >= -2147483648ll && offset <= 2147483647ll;
  if (__all_sync(group.lanes, follows && small)) {
    made.encoding = WS_AFFINE;
    made.words = 1;
    return made;
  }
  if (may_be_linear && group.lanes == ~0u) {
    const WsWhole whole = ws_plan_whole(group.lane, group.lane, value);
    if (whole.encoding != 0) return {whole.encoding, whole.words, whole.own, 0};
  }
  if (__all_sync(group.lanes, near)) {
    made.encoding = WS_OFFSETS;
    made.words = 1 + (group.count + 1) / 2;
  } else {
    made.encoding = WS_LIST;
    made.words = group.count;
  }
  return made;
}

// Two lanes to a word: the first of each pair writes for both.
DEVICE void store_pairs(const WsLaunch* launch, const Group& group, u64 at, u32 value) {
  const u32 above = group.lanes & ~((2u << group.lane) - 1);
  const u32 next = __shfl_sync(group.lanes, value, above != 0 ? __ffs(above) - 1 : group.lane);
  if (group.rank % 2 == 0)
    store(launch, at + group.rank / 2, value | (above != 0 ? static_cast<u64>(next) << 32 : 0));
}

DEVICE void write_operand(const WsLaunch* launch, const Group& group, const Plan& plan, u64 at, u64 value) {
  if (plan.encoding >> 6 != 0) {
    if (group.lane < plan.words) store(launch, at + group.lane, plan.base);
  } else if (plan.encoding == WS_AFFINE) {
    if (group.lane == group.leader) store(launch, at, plan.base | static_cast<u64>(plan.step & 0xffff) << 48);
  } else if (plan.encoding == WS_OFFSETS) {
    if (group.lane == group.leader) store(launch, at, plan.base);
    store_pairs(launch, group, at + 1, static_cast<u32>(value - plan.base));
  } else if (plan.encoding == WS_LIST) {
    store(launch, at + group.rank, value);
  }
}

// Words of the ring for a record; ~0 when `every` or `first` leave it out.
DEVICE u64 reserve(const WsLaunch* launch, const Group& group, u32 words) {
  u64 at = 0;
  if (group.lane == group.leader) {
    bool wanted = true;
    if (launch->every > 1 || launch->first != ~0ull) {
      const u64 number = atomicAdd(launch->counter, 1ull);
      wanted = number % launch->every == 0 && number / launch->every < launch->first;
    }
    at = wanted ? atomicAdd(launch->head, static_cast<u64>(words)) : ~0ull;
    if (wanted) wait_for_room(launch, at + words);
  }
  return __shfl_sync(group.lanes, at, group.leader);
}

struct Values {
  u32 encoding;
  u32 words;
  u64 low;
  u64 high;
};

DEVICE Values no_values() { return {WS_NONE, 0, 0, 0}; }

// What a lane stores, or finds where it loads from, as 16 bytes.
DEVICE Values values_at(const Group& group, const void* data, u32 size) {
  Values read = {WS_VALUE_EACH, 0, 0, 0};
  const auto* bytes = static_cast<const volatile unsigned char*>(data);
  const u64 address = reinterpret_cast<u64>(data);
  if (size == 16 && address % 8 == 0) {
    read.low = reinterpret_cast<const volatile u64*>(data)[0];
    read.high = reinterpret_cast<const volatile u64*>(data)[1];
  } else if (size == 8 && address % 8 == 0) {
    read.low = *reinterpret_cast<const volatile u64*>(data);
  } else if (size == 4 && address % 4 == 0) {
    read.low = *reinterpret_cast<const volatile u32*>(data);
  } else {
    for (u32 i = 0; i < size && i < 16; ++i)
      (i < 8 ? read.low : read.high) |= static_cast<u64>(bytes[i]) << (i % 8 * 8);
  }
  const u64 low = __shfl_sync(group.lanes, read.low, group.leader);
  const u64 high = __shfl_sync(group.lanes, read.high, group.leader);
  if (__all_sync(group.lanes, read.low == low && read.high == high)) {
    read.encoding = WS_VALUE_ONE;
    read.words = size > 8 ? 2 : 1;
  } else {
    read.words = size > 8 ? 2 * group.count : size > 4 ? group.count : (group.count + 1) / 2;
  }
  return read;
}

DEVICE void write_values(const WsLaunch* launch, const Group& group, const Values& values, u64 at, u32 size) {
  if (values.encoding == WS_NONE) return;
  if (values.encoding == WS_VALUE_ONE) {
    if (group.lane == group.leader) {
      store(launch, at, values.low);
      if (size > 8) store(launch, at + 1, values.high);
    }
  } else if (size > 8) {
    store(launch, at + 2 * group.rank, values.low);
    store(launch, at + 2 * group.rank + 1, values.high);
  } else if (size > 4) {
    store(launch, at + group.rank, values.low);
  } else {
    store_pairs(launch, group, at, static_cast<u32>(values.low));
  }
}

struct Event {
  u64 pc;
  u32 kind;
  u32 flags;
  u32 size;
};

DEVICE void write(const WsLaunch* launch, const Group& group, const Event& event, const Plan& a, u64 value_a,
                  const Plan& b, u64 value_b, const Values& values) {
  const u32 words = WS_EVENT_HEADER_WORDS + a.words + b.words + values.words;
  const u64 at = reserve(launch, group, words);
  if (at == ~0ull) return;
  if (group.lane == group.leader) {
    u64 now;
    u32 sm;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    store(launch, at + 1, (event.pc & 0xffffffffull) | static_cast<u64>(block_of_grid()) << 32);
    store(launch, at + 2,
          launch->launch | static_cast<u64>(warp_of_block() & 255) << 32 |
              static_cast<u64>(event.flags & 255) << 40 | static_cast<u64>(sm & 65535) << 48);
    store(launch, at + 3, now);
  }
  u64 place = at + WS_EVENT_HEADER_WORDS;
  write_operand(launch, group, a, place, value_a);
  place += a.words;
  write_operand(launch, group, b, place, value_b);
  place += b.words;
  write_values(launch, group, values, place, event.size);
  if (group.lane != group.leader) return;
  const u32 encodings = a.encoding | (b.encoding & 3) << 2 | (values.encoding | b.encoding >> 6) << 4;
  store(launch, at,
        static_cast<u64>(group.lanes) | static_cast<u64>(event.kind) << 32 | static_cast<u64>(words) << 40 |
            static_cast<u64>(encodings) << 48 | static_cast<u64>(event.size & 255) << 56);
}

DEVICE Plan nothing() { return {WS_NONE, 0, 0, 0}; }

// Records one event. `what` is kind | flags << 8 | bytes << 16 | one of the two bits below; `data` points to
// the values.
constexpr u32 kHasB = 1u << 24, kByAddress = 1u << 25;

}  // namespace

extern "C" __device__ __noinline__ int ws_record(void* userdata, u64 pc, u32 what, u64 a, u64 b,
                                                 const void* data) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr || !chosen(launch, pc)) return 0;
  const Event event = {pc, what & 255, what >> 8 & 255, what >> 16 & 255};
  const u32 together = __activemask();
  const bool inside = (what & kByAddress) == 0 || (a >= launch->address_low && a < launch->address_high);
  const u32 lanes = __ballot_sync(together, inside);
  if (!inside) return 0;
  const Group group = group_of(lanes);
  const Plan plan_a = plan(group, a, true);
  const Plan plan_b = (what & kHasB) != 0 ? plan(group, b, event.kind == kCopyAsync) : nothing();
  const bool read = launch->values != 0 && __all_sync(lanes, data != nullptr);
  const Values values = read ? values_at(group, data, event.size) : no_values();
  write(launch, group, event, plan_a, a, plan_b, b, values);
  return 0;
}
