// What looks for races while kernels run (race_layout.h says how): called by patches (check_patches.cuh), and
// by kernels that were compiled with their checks (compiled_checks.cu).
#pragma once

#include "sanitizer/race_events.h"
#include "sanitizer/ring.cuh"

namespace {

// A record of one lane with four words: A, B and the values.
DEVICE void write_told(const WsMe& me, u32 kind, u32 flags, u32 lane, u32 pc, const u64 (&words)[4]) {
  const auto* launch = static_cast<const WsLaunch*>(me.launch);
  constexpr u32 kWords = WS_EVENT_HEADER_WORDS + 4;
  const u64 at = atomicAdd(launch->head, static_cast<u64>(kWords));
  wait_for_room(launch, at + kWords);
  u64 now;
  u32 sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  store(launch, at + 1, pc | static_cast<u64>(me.block) << 32);
  store(launch, at + 2,
        launch->launch | static_cast<u64>(me.warp_of_block & 255) << 32 | static_cast<u64>(flags) << 40 |
            static_cast<u64>(sm & 65535) << 48);
  store(launch, at + 3, now);
  for (u32 i = 0; i < 4; ++i) store(launch, at + 4 + i, words[i]);
  const u32 encodings = WS_LIST | WS_LIST << 2 | WS_VALUE_EACH << 4;
  store(launch, at,
        1ull << lane | static_cast<u64>(kind) << 32 | static_cast<u64>(kWords) << 40 |
            static_cast<u64>(encodings) << 48 | 16ull << 56);
}

}  // namespace

// Flags: the reason in bits 0-3, then shared memory, whether the earlier access writes, whether this one
// does. A: the address; B: low half of the earlier program counter, and its thread; values: how often so far,
// and the earlier block.
WS_APART void tell(WsMe me, WsFinding found) {
  const u32 flags = found.reason | found.shared << 4 | found.earlier_writes << 5 | found.writes << 6;
  const u32 row = index_of(me.race, found.earlier);
  const u32 thread = row % me.race->warps * 32 + lane_of(found.earlier);
  write_told(me, WS_RACE_KIND, flags, found.lane, me.race->site_pcs[WS_SITE(me.facts)],
             {found.address, me.race->site_pcs[site_of(found.earlier)] | static_cast<u64>(thread) << 32,
              found.count, row / me.race->warps});
}

// A: the cause; values: how often so far.
WS_APART void leave_out(WsMe me, u32 cause) {
  const u64 count = add(me.race->unwatched + cause, 1ull) + 1;
  if ((count & (count - 1)) == 0) write_told(me, WS_UNWATCHED_KIND, 0, 0, 0, {cause, 0, count, 0});
}

namespace {

constexpr u32 kFences = 31u << 14;
constexpr u32 kArrives = 1023u << 21;
constexpr u32 kAll = ~0u;

// Device code lies within 4 GiB, so the low halves of addresses tell instructions apart.
DEVICE u32 facts_of(const WsRace* race, u32 pc) {
  u32 offset = pc - race->pc;
  if (offset < race->bytes) return race->facts[offset / 16];
  for (u32 i = 1; i < race->function_count; ++i) {
    offset = pc - static_cast<u32>(race->functions[i].pc);
    if (offset < race->functions[i].bytes) return race->facts[race->functions[i].first + offset / 16];
  }
  return 0;
}

// Where the lanes that came together are; false when the launch is not checked.
DEVICE bool place(WsMe* me, void* userdata) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr || launch->mode != WS_CHECK) return false;
  const Group group = group_of(__activemask());
  me->launch = launch;
  me->race = launch->race;
  me->block = block_of_grid();
  me->warp_of_block = warp_of_block();
  me->lanes = group.lanes;
  me->rank = group.rank;
  me->count = group.count;
  return true;
}

// What is known of an instruction: found by its program counter, or given by code that knows it.
struct FactsAt {
  u64 pc;
  DEVICE_MEMBER u32 of(const WsRace* race) const { return facts_of(race, static_cast<u32>(pc)); }
};
struct FactsGiven {
  u32 facts;
  DEVICE_MEMBER u32 of(const WsRace*) const { return facts; }
};

// The warp at this instruction, and what the fences before it do; false when it is not watched.
template <class Facts>
DEVICE bool come(WsMe* me, void* userdata, Facts facts) {
  if (!place(me, userdata) || !begin(me)) return false;
  me->facts = facts.of(me->race);
  if ((me->facts & kFences) != 0) pass_fences(*me);
  return from_first(*me, me->warp->epoch) < WS_LARGEST_EPOCH;
}

// What lies in an mbarrier of this block.
DEVICE u64 word_at(u32 offset) {
  u64 generic;
  asm("cvta.shared.u64 %0, %1;" : "=l"(generic) : "l"(static_cast<u64>(offset & 0xffffff)));
  return *reinterpret_cast<const volatile u64*>(generic);
}

DEVICE u32 this_lane() {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

}  // namespace

// What the common way of an access leaves to others, since patches have few registers.
extern "C" __device__ __noinline__ int ws_check_begin(void* userdata, u32 facts) {
  WsMe me;
  if (!place(&me, userdata) || !begin(&me)) return 0;
  me.facts = facts;
  if ((facts & kFences) != 0) pass_fences(me);
  return 1;
}

// The bytes of a word that lanes access which come together, where they have parts of it: as one access of
// the first of them, 0 for the others.
DEVICE u32 parts_of(const WsMe& me, u32 lane, u64 address, u32 size, u32* bytes) {
  const u32 own = ((1u << size) - 1) << (static_cast<u32>(address) & 3);
  const u32 peers = __match_any_sync(me.lanes, address >> 2);
  u32 all = 0;
  for (u32 byte = 0; byte < 4; ++byte)
    all |= static_cast<u32>((__ballot_sync(me.lanes, own >> byte & 1) & peers) != 0) << byte;
  *bytes = all != own ? all : 0;
  return all == own || lane == static_cast<u32>(__ffs(peers)) - 1;
}

extern "C" __device__ __noinline__ int ws_check_slowly(void* userdata, u32 facts, u32 what, u64 address,
                                                       u32 count) {
  WsMe me;
  if (!place(&me, userdata) || !begin(&me)) return 0;
  me.facts = facts;
  if (from_first(me, load(&me.warp->epoch)) >= WS_LARGEST_EPOCH) return 0;
  const u32 lane = this_lane();
  u32 bytes = 0, comes = 1;
  if (what >> 16 < 4 && count == 0) comes = parts_of(me, lane, address, what >> 16, &bytes);
  if (comes != 0) on_access(me, lane, what, address, count, bytes);
  leave(me);
  return 0;
}

extern "C" __device__ __noinline__ int ws_check_unwatched(void* userdata) {
  WsMe me;
  if (place(&me, userdata)) leave_out(me, WS_NO_SHADOW);
  return 0;
}

namespace {

// Whether what the shadow holds needs no closer look: it is of another launch or block, or of this thread, or
// this warp knows of its epoch.
DEVICE bool settled(const WsRace* race, const WsWarp* own, u32 first, u64 mine, u64 earlier, bool shared) {
  const u32 index = index_of(race, earlier), warp = index - first;
  if (earlier == 0 || index >= race->watched) return true;
  if (warp >= race->warps) return shared && race->alone != 0;
  if (race->copies != 0) return false;
  constexpr u64 kThread = (1ull << 53) - (1ull << 22) + (3ull << 4);
  return ((earlier ^ mine) & kThread) == 0 ||
         (several_of(earlier) != kOtherBlocks && epoch_of(earlier) <= own->known[warp]);
}

}  // namespace

extern "C" __device__ __noinline__ int ws_check_found(void* userdata, u32 facts, u64 address, u32 bits,
                                                      u64* reads, u64 before, u64 other) {
  WsMe me;
  if (!place(&me, userdata) || !begin_again(&me)) return 0;
  me.facts = facts;
  WsAccess access = {};
  access.address = address;
  access.owner = me.block;
  access.lane = this_lane();
  access.bytes = bits & 15;
  access.shared = (bits & 16) != 0;
  access.write = (bits & 32) != 0;
  access.whole = (bits & 64) != 0;
  access.epoch = me.warp->epoch;
  check_found(me, access, reads, before, other);
  return 0;
}

extern "C" __device__ __noinline__ int ws_check_line_found(void* userdata, u64 mine, u64 address, u32 bits,
                                                           u64 before, u64 other) {
  WsMe me;
  if (!place(&me, userdata) || !begin_again(&me)) return 0;
  me.facts = static_cast<u32>(mine >> 53);
  const u32 first = me.block * me.race->warps;
  if ((bits & 64) == 0 && settled(me.race, me.warp, first, mine, other, false) &&
      (several_of(mine) == kOtherBlocks || settled(me.race, me.warp, first, mine, before, false)))
    return 0;
  WsAccess access = {};
  access.address = address;
  access.lane = lane_of(mine);
  access.bytes = 15;
  access.write = (bits & 32) != 0;
  access.epoch = epoch_of(mine);
  u64* const page = page_of(me.race, address);
  if (page != nullptr)
    check_line_found(me, access, line_of(page, address), word_of(page, address), before, other,
                     (bits & 64) != 0);
  return 0;
}

extern "C" __device__ __noinline__ int ws_check_word_of_line(void* userdata, u32 facts, u64 address,
                                                             u32 bits) {
  WsMe me;
  if (!place(&me, userdata) || !begin_again(&me)) return 0;
  me.facts = facts;
  WsAccess access = {};
  access.address = address;
  access.lane = this_lane();
  access.bytes = 15;
  access.write = (bits & 32) != 0;
  access.whole = (bits & 64) != 0;
  access.epoch = me.warp->epoch;
  u64* page = page_of(me.race, address);
  if (page != nullptr) check_line_of_word(me, access, line_of(page, address));
  return 0;
}

// Words of a lane's access. `bits`: 16 in shared memory, 32 where it writes; bytes << 8. There is one way
// out: when a lane returned before the others, it stayed in this function for ever while they went on, in
// compiled checks of a loop that waits (CUB's scan on an H200).
extern "C" __device__ __noinline__ int ws_check_words(void* userdata, const WsRace* race, const WsWarp* own,
                                                      u64 mine, u64 address, u32 bits, u32 facts) {
  const u32 lanes = __activemask(), lane = this_lane();
  const bool shared = (bits & 16) != 0, write = (bits & 32) != 0;
  u32 size = bits >> 8;
  bits &= 48;
  if (!write && (lanes & (lanes - 1)) != 0 &&
      __all_sync(lanes, __shfl_sync(lanes, address, __ffs(lanes) - 1) == address)) {
    if ((lanes & ((1u << lane) - 1)) != 0) size = 0;  // the first lane notes it for all
    mine |= kSameWarp << 4;
    bits |= 64;
  }
  mine |= lane << 22;
  const u32 block = block_of_grid(), first = block * race->warps;
  u64 *writes, *reads = nullptr, *line = nullptr;
  if (shared) {
    writes = word_of_shared(race, block, own->shared_shift, static_cast<u32>(address));
    reads = writes + WS_BLOCK_WORDS;
  } else {
    u64* const page = page_of(race, address);
    writes = page != nullptr ? word_of(page, address) : nullptr;
    reads = writes + WS_PAGE_WORDS;
    line = line_of(page, address);
  }
  if (writes == nullptr) {
    ws_check_unwatched(userdata);
    size = 0;
  }
#pragma unroll 1
  for (u32 at = 0; at < size; at += 4, ++writes, ++reads) {
    const u64 others = write || shared ? 0 : also_others(race, own, load(reads));
    const u64 before = exchange(write ? writes : reads, mine | others);
    const u64 other = load(write ? reads : writes);
    if (WS_SCOPE(facts) != 0 || (others == 0 && !settled(race, own, first, mine, before, shared)) ||
        !settled(race, own, first, mine, other, shared))
      ws_check_found(userdata, facts, address + at, 15u | bits, reads, before, other);
    if (shared) continue;
    u64 written, words, again, read;
    load_both(line, &written, &words);
    load_both(line + 2, &again, &read);
    if (WS_SCOPE(facts) != 0 || words != race->tag || of_launch(race, written) ||
        (write && of_launch(race, read)))
      ws_check_word_of_line(userdata, facts, address + at, bits);
  }
  return 0;
}

// What every access needs; false when it is dealt with, or there is nothing to do.
struct Coming {
  const WsRace* race;
  const WsWarp* own;
  u32 facts, block;
  u64 mine;
};

namespace {

template <class Facts>
DEVICE bool come_quickly(Coming* coming, void* userdata, Facts known, u64 address, u32 size, u32 flags,
                         u32 kind) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr) return false;
  const WsRace* race = launch->race;
  if (race == nullptr) return false;
  const u32 facts = known.of(race), block = block_of_grid(), warp = warp_of_block();
  const WsWarp* own = race->slots[(race->block_base + block) & (WS_SLOTS - 1)].warps + warp;
  const u32 stamp = stamp_of(race, block * race->warps + warp);
  u32 found, epoch;
  own_both(&own->stamp, &found, &epoch);
  if (found != stamp || (facts & kFences) != 0) {
    if (ws_check_begin(userdata, facts) == 0) return false;
    epoch = load(&own->epoch);
  }
  if ((facts & kArrives) != 0 || WS_SITE(facts) == 0 || size < 4 || (static_cast<u32>(address) & 3) != 0 ||
      (flags & kPrefetches) != 0 || epoch >= WS_LARGEST_EPOCH) {
    ws_check_slowly(userdata, facts, kind | (flags & 255) << 8 | size << 16, address, 0);
    return false;
  }
  *coming = {race, own, facts, block, packed_warp(stamp, facts, epoch) | 15u};
  return true;
}

// An access of a lane to shared memory.
template <class Facts>
DEVICE int check_shared(void* userdata, Facts facts, u64 address, u32 size, u32 flags) {
  Coming at;
  if (!come_quickly(&at, userdata, facts, address, size, flags, 4)) return 0;
  const u32 bits = 16u | (flags & kWrites) << 4 | size << 8;
  return ws_check_words(userdata, at.race, at.own, at.mine, address, bits, at.facts);
}

// The same for global memory. Where all lanes of a warp access words that follow each other, from the begin
// of a line on, the first lane of each line takes note of it.
template <class Facts>
DEVICE int check_global(void* userdata, Facts facts, u64 address, u32 size, u32 flags) {
  Coming at;
  if (!come_quickly(&at, userdata, facts, address, size, flags, 3)) return 0;
  const WsRace* race = at.race;
  const bool write = (flags & kWrites) != 0;
  if (WS_SCOPE(at.facts) == 0 && __activemask() == kAll) {
    const u64 begin = address - this_lane() * size;
    const u32 number = static_cast<u32>(begin >> WS_LINE_SHIFT);
    const bool same = __shfl_sync(kAll, number, 0) == number;
    if (same && (static_cast<u32>(begin) & (32 * size - 1)) == 0 && __activemask() == kAll) {
      if ((static_cast<u32>(address) & 127) != 0) return 0;
      u64* const page = page_of(race, address);
      if (page == nullptr) return ws_check_unwatched(userdata);
      u64 mine = at.mine | static_cast<u64>(29 - __clz(size)) << 22;
      u64* line = line_of(page, address);
      u64 first, second;
      if (!write) mine |= also_others(race, at.own, load(line + 3));
      const u64 before = exchange(line + (write ? 0 : 3), mine);
      load_both(line + (write ? 2 : 0), &first, &second);
      const u64 words = write ? first : second, other = write ? second : first;
      if (words != race->tag && index_of(race, before) >= race->watched &&
          index_of(race, other) >= race->watched)
        return 0;
      return ws_check_line_found(userdata, mine, address, write << 5 | (words == race->tag) << 6, before,
                                 other);
    }
  }
  return ws_check_words(userdata, race, at.own, at.mine, address, write << 5 | size << 8, at.facts);
}

// Accesses whose address says more: the block of a cluster, or matrices.
template <class Facts>
DEVICE int check_other(void* userdata, Facts facts, u32 what, u64 address, u32 count) {
  WsMe me;
  if (!come(&me, userdata, facts)) return 0;
  on_access(me, this_lane(), what, address, count, 0);
  leave(me);
  return 0;
}

// Copies of the async proxies; the lanes of bulk copies say the same.
template <class Facts>
DEVICE int check_copy(void* userdata, Facts facts, u32 kind, u64 global, u32 shared, u32 size, u32 barrier) {
  WsMe me;
  if (!come(&me, userdata, facts)) return 0;
  on_copy(me, this_lane(), kind, global, shared, size, barrier, kind == 30 ? word_at(barrier) : 0);
  leave(me);
  return 0;
}

// What orders accesses.
template <class Facts>
DEVICE int check_order(void* userdata, Facts facts, u32 kind, u32 flags, u64 a, u32 b) {
  WsMe me;
  if (!come(&me, userdata, facts)) return 0;
  const bool has_word = kind == 13 || kind == 39;
  on_order(me, kind, flags, a, b, has_word ? word_at(static_cast<u32>(a)) : 0);
  leave(me);
  return 0;
}

}  // namespace
