// What a thread remembers of the stacks it has taken: whole stacks, word for word, and their ids.
#pragma once

#include <cstdint>

#include "stacks/frames.h"

namespace warpsight {

// Most native frames that are taken before the merge.
constexpr uint32_t kMostAddresses = kMostDepth;

struct ThreadCache {
  static constexpr uint32_t kSlots = 4096;
  static constexpr uint32_t kLogWords = 128 * 1024;
  static constexpr uint32_t kProbes = 4;
  struct Slot {
    uint64_t hash;
    uint32_t first;  // in `log`
    uint32_t words;
    uint32_t id;  // 0 = empty
    uint32_t reserved;
  };

  uint32_t generation;
  volatile bool busy;  // a signal handler that launches must not find us half way
  uint32_t log_used;
  int64_t pass;  // of a thread of autograd's engine: the backward pass it was asked about last, kNoPass none
  int64_t pass_tried;   // the pass whose stack was looked for last, found or not
  uint64_t look_again;  // ns: not for this one before
  uint32_t pass_stack;  // the stack of `pass`
  // Stacks found by hash alone, the newest of each place: a loop has few, and these are together.
  struct Recent {
    uint64_t hash;
    uint32_t words;
    uint32_t id;  // 0 = empty
  };
  static constexpr uint32_t kRecentBits = 7;
  alignas(64) Recent recent[1 << kRecentBits];
  Slot slots[kSlots];
  // The stack being taken: Python places, then native addresses, then one word of flags.
  static constexpr uint32_t kPlaceWords = sizeof(Place) / 8;
  uint64_t scratch[kMostDepth * kPlaceWords + kMostAddresses + 1];
  uint64_t log[kLogWords];

  // The id stored for scratch[0:words], or 0.
  uint32_t find(uint64_t hash, uint32_t words) const;
  // The same by hash and length alone. For hashes of Chain::hash's kind: each step is a bijection of the hash
  // so far, so stacks that differ in one place never meet, and others do once in 2^64.
  uint32_t find_hash(uint64_t hash, uint32_t words) {
    Recent& kept = recent[hash >> (64 - kRecentBits)];
    if (__builtin_expect(kept.hash == hash && kept.words == words, 1)) return kept.id;
    const uint32_t id = find_slot(hash, words);
    if (id) kept = {hash, words, id};
    return id;
  }
  void add(uint64_t hash, uint32_t words, uint32_t id);
  void clear();

 private:
  uint32_t find_slot(uint64_t hash, uint32_t words) const;
};

extern __thread ThreadCache* t_stack_cache;  // nullptr before its first use
ThreadCache* make_thread_cache();            // nullptr without memory

uint64_t hash_words(const uint64_t* words, uint32_t count);

}  // namespace warpsight
