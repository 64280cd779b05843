// Where the shadow of memory is: a page is handed out when it is first touched. Its place in the table of
// keys is its place in the shadow.
#pragma once

#include "sanitizer/race_order.h"

// The place of a key, below `size`, a power of two; ~0 when there is no room.
WS_HERE u32 place_of(u64* keys, u32 size, u64 key) {
  u32 at = static_cast<u32>((key * 0x9e3779b97f4a7c15ull) >> 40) & (size - 1);
  for (u32 probe = 0; probe < 64; ++probe, at = (at + 1) & (size - 1)) {
    if (keys[at] == key) return at;  // from the cache: what is set stays
    u64 found = load(keys + at);
    if (found == 0) found = swap_if(keys + at, 0ull, key);
    if (found == 0 || found == key) return at;
  }
  return ~0u;
}

WS_HERE u64* entry_at(u64* shadow, u32 place, u64 address, u32 shift) {
  if (place == ~0u) return nullptr;
  const u64 word = (address & ((1ull << shift) - 1)) >> 2;
  return shadow + 2 * ((static_cast<u64>(place) << (shift - 2)) + word);
}

// The entry of a word of global memory; null when there is no room.
WS_HERE u64* entry_of_global(const WsRace* race, u64 address) {
  const u32 place = place_of(race->pages, race->shadow_pages, (address >> WS_PAGE_SHIFT) + 1);
  return entry_at(race->shadow, place, address, WS_PAGE_SHIFT);
}

// The entry of a word of a block's shared memory.
WS_HERE u64* entry_of_shared(const WsRace* race, u32 block, u32 offset) {
  const u64 slot = slot_number(race, block);
  const u64 key = (slot << 12 | offset >> WS_BLOCK_PAGE_SHIFT) + 1;
  const u32 place = place_of(race->block_pages, race->block_shadow_pages, key);
  return entry_at(race->block_shadow, place, offset, WS_BLOCK_PAGE_SHIFT);
}
