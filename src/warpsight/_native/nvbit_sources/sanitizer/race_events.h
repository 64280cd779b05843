// What the classes of instructions mean to the detector, by the Sanitizer's numbers.
#pragma once

#include "sanitizer/race_mbarriers.h"
#include "sanitizer/race_pages.h"
#include "sanitizer/race_shadow.h"

constexpr u32 kReads = 1, kWrites = 2, kPrefetches = 8;  // Sanitizer_DeviceMemoryFlags

// One word, or a part of it.
WS_HERE void check_part(const WsMe& me, const WsAccess& access) {
  const u32 offset = static_cast<u32>(access.address);
  u64* page = access.shared ? nullptr : page_of(me.race, access.address);
  u64* word = access.shared     ? word_of_shared(me.race, access.owner, me.warp->shared_shift, offset)
              : page != nullptr ? word_of(page, access.address)
                                : nullptr;
  if (word == nullptr) {
    leave_out(me, WS_NO_SHADOW);
    return;
  }
  check_word(me, access, word, word + (access.shared ? WS_BLOCK_WORDS : WS_PAGE_WORDS));
  if (!access.shared) check_line_of_word(me, access, line_of(page, access.address));
}

// All words of one access.
WS_HERE void check_bytes(const WsMe& me, WsAccess access, u32 size) {
  const u64 begin = access.address;
  for (u64 word = begin & ~3ull; word < begin + size; word += 4) {
    const u32 skipped = word < begin ? static_cast<u32>(begin - word) : 0;
    const u64 left = begin + size - word;
    access.bytes = (left < 4 ? (1u << left) - 1 : 15u) & (15u << skipped) & 15u;
    access.address = word + skipped;
    check_part(me, access);
  }
}

// An access of a lane. `what`: class | flags << 8 | bytes << 16; `count`: matrices; `bytes`: of a part of a
// word that several lanes access, 0 for others.
WS_HERE void on_access(const WsMe& me, u32 lane, u32 what, u64 address, u32 count, u32 bytes) {
  const u32 kind = what & 255, flags = what >> 8 & 255;
  WsAccess access = {};
  access.address = address;
  access.owner = me.block;
  access.lane = lane;
  access.shared = kind != 3;
  access.write = (flags & kWrites) != 0;
  access.epoch = me.warp->epoch;
  if (kind == 17) {
    access.owner = block_of_rank(me, static_cast<u32>(address >> 24) & 255);
    access.address = address & 0xffffff;
  }
  const bool skips =
      (kind == 19 && lane >= 8 * count) || (flags & kPrefetches) != 0 || (flags & (kReads | kWrites)) == 0;
  if (skips) return;
  if (WS_SITE(me.facts) == 0) {
    if (me.rank == 0) leave_out(me, WS_NO_SITE);
    return;
  }
  if (bytes == 0) {
    check_bytes(me, access, what >> 16);
    return;
  }
  access.bytes = bytes;
  access.split = true;
  check_part(me, access);
}

// A copy by cp.async (class 14), or in bulk: from global to shared memory (30), or the other way.
WS_HERE void on_copy(const WsMe& me, u32 lane, u32 kind, u64 global, u32 shared, u32 size, u32 barrier,
                     u64 word) {
  WsAccess access = {};
  access.address = global;
  access.owner = me.block;
  access.lane = lane;
  access.epoch = me.warp->epoch;
  if (kind == 14) check_bytes(me, access, size);
  access.shared = true;
  access.address = shared & 0xffffff;
  access.bulk = kind != 14;
  access.write = kind == 14 || kind == 30;
  if (access.bulk && me.rank != 0) return;
  if (kind == 30) access.epoch = copy_phase(me, barrier, word);
  if (access.epoch == ~0u)
    leave_out(me, WS_FAR_COPY);
  else
    check_bytes(me, access, size);
}

// A barrier, or what is waited for. `word`: what is in an mbarrier.
WS_HERE void on_order(const WsMe& me, u32 kind, u32 flags, u64 a, u32 b, u64 word) {
  const u32 action = flags & 127, address = static_cast<u32>(a);
  if (kind == 6) barrier_arrive(me, address, b);
  if (kind == 29) barrier_pass(me, address, b);
  if (kind == 33) warp_pass(me);
  if (kind == 21) cluster_arrive(me);
  if (kind == 22) cluster_pass(me);
  if (kind == 15) commit(me);
  if (kind == 16) wait_for_copies(me, address);
  if (kind == 34) copies_to_barrier(me);
  if (kind == 13 && action == kInit) mbarrier_init(me, address);
  if (kind == 13 && action >= kArrive && action <= kDropNoComplete)
    mbarrier_arrive(me, address, b * me.count, word);
  if (kind == 39 && action == kWait && (flags & 128) != 0)
    mbarrier_pass(me, address, b >> 31 | (b & 1), word);
}

// What comes behind an instruction.
WS_HERE void leave(const WsMe& me) {
  meet(me);
  if (WS_ARRIVES(me.facts) != 0) arrive_behind(me);
}
