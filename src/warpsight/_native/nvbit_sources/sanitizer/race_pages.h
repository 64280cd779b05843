// Where the shadow of memory is. A page gets one when a launch first touches it; its place in the table of
// keys is its place in the shadow. What other launches noted there is known as theirs, so a page goes to
// another one without being cleared, once no launch can be at work that used it.
#pragma once

#include "sanitizer/race_order.h"

// Pages that follow each other have places that do: memory comes in few large pieces.
WS_HERE u32 first_place(u32 page, u32 shift) { return page & (0xffffffffu >> shift); }

// Looks further than the first place, which mostly has the page; ~0 when there is no room.
WS_APART u32 claim_place(u64* keys, u32 shift, u64 key) {
  const u32 last = (1u << (32 - shift)) - 1;
  u32 at = first_place(static_cast<u32>(key), shift);
  for (u32 probe = 0; probe < 256; ++probe, at = (at + 1) & last) {
    u64 found = load(keys + at);
    while (found != key) {
      const u32 age = static_cast<u32>(key >> 32) - static_cast<u32>(found >> 32);
      const bool same = static_cast<u32>(found) == static_cast<u32>(key);
      if (found != 0 && !same && (age < WS_PAGE_AGE || age > ~0u / 2)) break;
      const u64 seen = swap_if(keys + at, found, key);
      found = seen == found ? key : seen;
    }
    if (found == key) return at;
  }
  return ~0u;
}

WS_HERE u32 place_of(u64* keys, u32 shift, u32 tag, u32 page) {
  const u64 key = static_cast<u64>(tag) << 32 | page;
  const u32 at = first_place(page, shift);
  return keys[at] == key ? at : claim_place(keys, shift, key);
}

// The shadow of an address's page of global memory; null when there is no room.
WS_HERE u64* page_of(const WsRace* race, u64 address) {
  const u32 place =
      place_of(race->pages, race->page_shift, race->tag, static_cast<u32>(address >> WS_PAGE_SHIFT));
  return place == ~0u ? nullptr : race->shadow + static_cast<u64>(WS_PAGE_ENTRIES) * place;
}

// Where the last write of a word is; the last read is as many words behind as a page has.
WS_HERE u64* word_of(u64* page, u64 address) {
  return page + (static_cast<u32>(address) >> 2 & (WS_PAGE_WORDS - 1));
}

WS_HERE u64* line_of(u64* page, u64 address) {
  const u32 line = static_cast<u32>(address) >> WS_LINE_SHIFT & (WS_PAGE_LINES - 1);
  return page + 2 * WS_PAGE_WORDS + WS_LINE_WORDS * line;
}

// The same for a block's shared memory; the last read is WS_BLOCK_WORDS behind. Blocks take turns: what a
// block finds there of another one is known as that one's.
// Null beyond what the block has.
WS_HERE u64* word_of_shared(const WsRace* race, u32 block, u32 shift, u32 offset) {
  const u32 first = (race->block_base + block) << shift, word = (offset & 0xffffff) >> 2;
  if (word >> shift != 0) return nullptr;
  return race->block_shadow + ((first | word) & (WS_BLOCK_WORDS - 1));
}
