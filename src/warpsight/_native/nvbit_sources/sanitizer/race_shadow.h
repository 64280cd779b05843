// The last write and the last read of each word, and what an access finds there.
#pragma once

#include "sanitizer/race_order.h"

// Who else read a word, with no order between the readers.
constexpr u32 kAlone = 0, kSameWarp = 1, kSameBlock = 2, kOtherBlocks = 3;

// An access to one word.
struct WsAccess {
  u64 address;  // for the report
  u32 owner;    // block whose shared memory it is
  u32 lane;
  u32 bytes;  // of the word: a bit each
  bool shared;
  bool write;
  bool bulk;   // by the async proxy
  bool whole;  // all lanes that came read this word
  bool split;  // by several lanes, each its part of the word: they are not compared with each other
  u32 epoch;   // of the warp, or the phase of a bulk copy
};

// A race as it is told: by `tell`, which the includer defines.
struct WsFinding {
  u64 address, earlier, count;
  u32 lane, reason;
  bool shared, earlier_writes, writes;
};
WS_APART void tell(WsMe me, WsFinding found);

// The part of an access that is the same for all of a warp's epoch.
WS_HERE u64 packed_warp(u32 stamp, u32 facts, u32 epoch) {
  return static_cast<u64>(WS_SITE(facts)) << 53 | static_cast<u64>(stamp & WS_ROW_NUMBERS) << 27 |
         static_cast<u64>(epoch) << 6;
}

WS_HERE u64 packed(const WsMe& me, const WsAccess& access, u32 several) {
  return packed_warp(me.warp->stamp, me.facts, access.epoch) | static_cast<u64>(access.lane) << 22 |
         static_cast<u64>(access.split) << 52 | several << 4 | access.bytes;
}

// The warp of an access that the shadow holds, as this launch counts them: below `watched` when it is its
// own.
WS_HERE u32 index_of(const WsRace* race, u64 earlier) {
  return (static_cast<u32>(earlier >> 27) - race->first_row) & WS_ROW_NUMBERS;
}

WS_HERE bool of_launch(const WsRace* race, u64 earlier) {
  return index_of(race, earlier) < race->watched && earlier != 0;
}

// The warp of an access that the shadow holds, in this launch; ~0 for one of another launch, or of a block
// that had this place of shared memory before.
WS_HERE u32 warp_of(const WsMe& me, const WsAccess& access, u64 earlier) {
  const WsRace* race = me.race;
  if (!of_launch(race, earlier)) return ~0u;
  const u32 index = index_of(race, earlier);
  if (!access.shared) return index;
  const u32 block = index / race->warps;
  return block == access.owner || cluster_of(race, block) == cluster_of(race, access.owner) ? index : ~0u;
}

WS_HERE u32 site_of(u64 earlier) { return static_cast<u32>(earlier >> 53); }
WS_HERE u32 epoch_of(u64 earlier) { return static_cast<u32>(earlier >> 6) & 0xffff; }
WS_HERE u32 lane_of(u64 earlier) { return static_cast<u32>(earlier >> 22) & 31; }
WS_HERE u32 several_of(u64 earlier) { return static_cast<u32>(earlier >> 4) & 3; }
WS_HERE bool split_of(u64 earlier) { return (earlier >> 52 & 1) != 0; }

// Whether an access of another warp was released, and this warp acquired that.
WS_HERE bool handed_over(const WsMe& me, const WsRow* row, u32 epoch, bool device) {
  const u32 known = me.warp->known[device ? WS_KNOWN_DEVICE : WS_KNOWN_BLOCK];
  if (!device) return (known != 0 || me.warp->known[WS_KNOWN_DEVICE] != 0) && epoch <= load(&row->fenced);
  if (known == 0 || epoch > load(&row->fenced_device)) return false;
  return epoch <= load(&row->fenced_before) || known >= load(&row->fenced_at);
}

WS_HERE u32 judge_same_warp(const WsMe& me, const WsAccess& access, u64 earlier) {
  const u32 epoch = epoch_of(earlier), several = several_of(earlier);
  if (several >= kSameBlock)
    return epoch <= me.warp->acquired ? WS_ORDERED : several == kSameBlock ? WS_WARPS : WS_BLOCKS;
  if (access.split || split_of(earlier)) return WS_ORDERED;
  if (several == kAlone && lane_of(earlier) == access.lane) return WS_ORDERED;
  if (epoch <= me.warp->warp_epoch) return WS_ORDERED;
  return site_of(earlier) == WS_SITE(me.facts) ? WS_ORDERED : WS_LANES;  // lanes of one instruction
}

// Why an earlier access of this launch is not before this one; WS_ORDERED when it is.
WS_HERE u32 judge_order(const WsMe& me, const WsAccess& access, u64 earlier, u32 index) {
  const WsRace* race = me.race;
  const u32 block = index / race->warps, warp = index % race->warps, epoch = epoch_of(earlier);
  const WsRow* row = row_of(race, index);
  const bool same_block = block == me.block;
  const bool clustered = in_cluster(race) && cluster_of(race, block) == cluster_of(race, me.block);
  const u32 waits = me.warp->cluster_waits;
  if (clustered && waits != 0 && epoch <= load(&row->arrived[waits & 1])) return WS_ORDERED;
  if (several_of(earlier) == kOtherBlocks && me.warp->known[WS_KNOWN_DEVICE] == 0) return WS_BLOCKS;
  if (same_block && warp == me.warp_of_block) return judge_same_warp(me, access, earlier);
  if (same_block && epoch <= me.warp->known[warp]) return WS_ORDERED;
  if (handed_over(me, row, epoch, !same_block)) return WS_ORDERED;
  return same_block ? WS_WARPS : clustered ? WS_CLUSTER : WS_BLOCKS;
}

// The same for an access as it is in the shadow, by the warp `index` of this launch.
WS_APART u32 judge_apart(WsMe me, WsAccess access, u64 earlier, u32 index, bool earlier_writes) {
  const WsRace* race = me.race;
  const u32 block = index / race->warps;
  const u32 facts = race->site_facts[site_of(earlier)];
  const u32 epoch = epoch_of(earlier);
  if (access.shared && earlier_writes && WS_COPIES(facts) == 2) {
    if (block != me.block) return WS_ORDERED;
    const u32 ahead = (me.warp->known[32 + (epoch >> 11)] - (epoch & 2047)) & 2047;
    return ahead == 0 || ahead > 2047 - 8 ? WS_BULK : WS_ORDERED;
  }
  if (access.shared && earlier_writes && WS_COPIES(facts) == 1) {
    if (epoch > load(&row_of(race, index)->copied)) return WS_COPY;
  }
  if (WS_SCOPE(facts) != 0 && WS_SCOPE(me.facts) != 0) {
    if (block == me.block || access.shared || (WS_SCOPE(facts) > 1 && WS_SCOPE(me.facts) > 1))
      return WS_ORDERED;
    return judge_order(me, access, earlier, index) != WS_ORDERED ? WS_NARROW : WS_ORDERED;
  }
  const u32 reason = judge_order(me, access, earlier, index);
  if (reason != WS_ORDERED || !access.bulk || access.write || !earlier_writes) return reason;
  // Read by the async proxy: a fence of it by the writer, or here since the two met.
  if (epoch <= load(&row_of(race, index)->proxied) || me.warp->proxied > me.warp->acquired) return WS_ORDERED;
  return WS_PROXY;
}

// Whether an access that the shadow holds is before this one; most are of another launch.
WS_HERE u32 judge(const WsMe& me, const WsAccess& access, u64 earlier, bool earlier_writes) {
  const u32 index = warp_of(me, access, earlier);
  if (index == ~0u || (earlier & access.bytes) == 0) return WS_ORDERED;
  return judge_apart(me, access, earlier, index, earlier_writes);
}

// Counts a race, and tells of it when it is new, and again whenever the count has doubled.
WS_APART void report(WsMe me, WsAccess access, u64 earlier, bool earlier_writes, u32 reason) {
  const u64 key = 1ull << 63 | static_cast<u64>(me.race->kernel & 0xffff) << 32 | reason << 24 |
                  site_of(earlier) << 12 | WS_SITE(me.facts);
  u32 at = static_cast<u32>((key * 0x9e3779b97f4a7c15ull) >> 50);
  for (u32 probe = 0; probe < 64; ++probe, at = (at + 1) & (WS_SEEN - 1)) {
    u64* place = me.race->seen + 2 * at;
    u64 found = load(place);
    if (found == 0) found = swap_if(place, 0ull, key);
    if (found != 0 && found != key) continue;
    const u64 count = add(place + 1, 1ull) + 1;
    if ((count & (count - 1)) != 0) return;
    tell(me,
         {access.address, earlier, count, access.lane, reason, access.shared, earlier_writes, access.write});
    return;
  }
}

// A strong access finds what another warp wrote. What was released until now the warp knows from its next
// fence on; within a block at once, since an acquire of block scope has no instruction of its own.
WS_APART void find_flag(WsMe me, WsAccess access, u64 written) {
  const u32 index = warp_of(me, access, written);
  if (index == ~0u || index == me.index) return;
  const u32 now = load(me.race->clock);
  const bool near = index / me.race->warps == me.block;
  if (!near && (WS_SCOPE(me.facts) < 2 || WS_SCOPE(me.race->site_facts[site_of(written)]) == 1)) return;
  raise(me.warp->known + (near ? WS_KNOWN_BLOCK : WS_FOUND_DEVICE), now);
  if (near) raise(&me.warp->acquired, me.warp->epoch);
}

// Who has read a word lately, now that this access is noted as its last read: `before` was it till then.
WS_HERE void mark_readers(const WsMe& me, const WsAccess& access, u64* reads, u64 before) {
  u32 several = access.whole ? kSameWarp : kAlone;
  const u32 reader = warp_of(me, access, before);
  if (reader != ~0u && (before & access.bytes) != 0) {
    const u32 known = several_of(before);
    const bool own = reader == me.index;
    const bool itself = own && known == kAlone && lane_of(before) == access.lane;
    if (own && known <= kSameWarp)
      several = !itself && epoch_of(before) > me.warp->warp_epoch ? kSameWarp : several;
    else if (judge_order(me, access, before, reader) != WS_ORDERED)
      several = reader / me.race->warps == me.block && known != kOtherBlocks ? kSameBlock : kOtherBlocks;
  }
  const u64 mine = packed(me, access, access.whole ? kSameWarp : kAlone),
            marked = packed(me, access, several);
  if (marked != mine) swap_if(reads, mine, marked);
}

// Compares with an earlier access, and tells of a race.
WS_HERE bool compare(const WsMe& me, const WsAccess& access, u64 earlier, bool earlier_writes) {
  const u32 reason = judge(me, access, earlier, earlier_writes);
  if (reason != WS_ORDERED) report(me, access, earlier, earlier_writes, reason);
  return reason == WS_ORDERED;
}

// What an access finds: `before`, the last of its kind till now, and `other`, the last of the other kind.
WS_HERE void check_found(const WsMe& me, const WsAccess& access, u64* reads, u64 before, u64 other) {
  const u64 written = access.write ? before : other;
  if (access.write ? WS_ATOMIC(me.facts) != 0 : WS_SCOPE(me.facts) != 0) find_flag(me, access, written);
  compare(me, access, written, true);
  if (!access.write) {
    mark_readers(me, access, reads, before);
    return;
  }
  if (warp_of(me, access, other) == ~0u) return;
  if (compare(me, access, other, false) && (other & 15 & ~access.bytes) == 0)
    swap_if(reads, other, 0ull);  // whoever is after this write is after those reads
}

// That several blocks read a word stays with it where no order with them can be known: what is added to the
// note of a read that finds `read`.
WS_HERE u64 also_others(const WsRace* race, const WsWarp* own, u64 read) {
  const bool stays = several_of(read) == kOtherBlocks && of_launch(race, read) && race->alone != 0 &&
                     own->known[WS_KNOWN_DEVICE] == 0;
  return stays ? static_cast<u64>(kOtherBlocks) << 4 : 0;
}

// Takes note of an access to a word, and looks for what it races with.
WS_HERE void check_word(const WsMe& me, const WsAccess& access, u64* writes, u64* reads) {
  u64 mine = packed(me, access, access.whole ? kSameWarp : kAlone);
  if (!access.write) mine |= also_others(me.race, me.warp, load(reads));
  const u64 before = exchange(access.write ? writes : reads, mine);
  const u64 other = load(access.write ? reads : writes);
  if (of_launch(me.race, before) || of_launch(me.race, other)) check_found(me, access, reads, before, other);
}

// What is noted of a line as of one of its words.
WS_HERE u64 of_word(u64 line, u64 address) {
  if (line == 0) return 0;
  const u64 lane = static_cast<u32>(address) >> (2 + lane_of(line)) & 31;
  return (line & ~(31ull << 22)) | lane << 22;
}

// A word that is accessed by itself: what is noted of its line.
WS_HERE void check_line_of_word(const WsMe& me, const WsAccess& access, u64* line) {
  const u64 tag = me.race->tag;
  if (load(line + 1) != tag) {
    exchange(line + 1, tag);
    exchange(line + 2, tag);
  }
  const u64 written = of_word(load(line), access.address);
  if (WS_ATOMIC(me.facts) != 0 || (!access.write && WS_SCOPE(me.facts) != 0)) find_flag(me, access, written);
  compare(me, access, written, true);
  if (access.write) compare(me, access, of_word(load(line + 3), access.address), false);
}

// One word of an access to whole lines: `words` where words of the line have entries of their own.
WS_HERE bool check_word_of_line(const WsMe& me, const WsAccess& access, u64* word, u64 before, u64 other,
                                bool words) {
  bool ordered = compare(me, access, of_word(access.write ? before : other, access.address), true);
  if (access.write) ordered &= compare(me, access, of_word(other, access.address), false);
  if (!words) return ordered;
  ordered &= compare(me, access, load(word), true);
  if (access.write) ordered &= compare(me, access, load(word + WS_PAGE_WORDS), false);
  return ordered;
}

// What an access to whole lines finds at one of them: `before` and `other` are as for words. `access.lane` is
// what entries of lines have there.
WS_HERE void check_line_found(const WsMe& me, WsAccess access, u64* line, u64* word, u64 before, u64 other,
                              bool words) {
  const u64 begin = access.address;
  const u32 logarithm = access.lane;
  bool ordered = true;
  const bool any = words || of_launch(me.race, access.write ? before : other) ||
                   (access.write && of_launch(me.race, other));
  for (u32 at = 0; at < 32 && any; ++at, ++word) {
    access.address = begin + 4 * at;
    access.lane = static_cast<u32>(access.address) >> (2 + logarithm) & 31;
    ordered &= check_word_of_line(me, access, word, before, other, words);
  }
  access.lane = logarithm;
  if (!access.write)
    mark_readers(me, access, line + 3, before);
  else if (ordered && warp_of(me, access, other) != ~0u)
    swap_if(line + 3, other, 0ull);  // whoever is after this write is after those reads
}
