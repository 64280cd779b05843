// An open-addressing table from a plain struct to an id: the basis of the definition tables.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace warpsight {

// Spreads a 64-bit value (splitmix64's finaliser).
inline uint64_t mix64(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// Keys are compared as bytes, so `Key` has no padding. Value 0 marks an empty slot. Not thread-safe.
template <class Key>
class FlatTable {
  static_assert(sizeof(Key) % 8 == 0, "hashed as 64-bit words");

 public:
  // The id stored under `key`, or 0.
  uint32_t find(const Key& key) const {
    if (!capacity_) return 0;
    for (uint32_t at = slot_of(key);; at = (at + 1) & (capacity_ - 1)) {
      if (!slots_[at].value) return 0;
      if (memcmp(&slots_[at].key, &key, sizeof(Key)) == 0) return slots_[at].value;
    }
  }

  // Adds a key that is not there; false without memory.
  bool add(const Key& key, uint32_t value) {
    if (used_ * 4 >= capacity_ * 3 && !grow()) return false;
    place(key, value);
    ++used_;
    return true;
  }

  uint32_t size() const { return used_; }

  void clear() {
    free(slots_);
    abandon();
  }

  // In a forked child: the memory may be half changed, so it is left alone.
  void abandon() {
    slots_ = nullptr;
    capacity_ = used_ = 0;
  }

 private:
  struct Slot {
    Key key;
    uint32_t value;
  };

  uint32_t slot_of(const Key& key) const {
    uint64_t words[sizeof(Key) / 8];
    memcpy(words, &key, sizeof(Key));
    uint64_t hash = 0;
    for (uint64_t word : words) hash = mix64(hash ^ word);
    return static_cast<uint32_t>(hash) & (capacity_ - 1);
  }

  void place(const Key& key, uint32_t value) {
    uint32_t at = slot_of(key);
    while (slots_[at].value) at = (at + 1) & (capacity_ - 1);
    slots_[at].key = key;
    slots_[at].value = value;
  }

  bool grow() {
    const uint32_t old_capacity = capacity_;
    Slot* old = slots_;
    const uint32_t capacity = old_capacity ? old_capacity * 2 : 256;
    Slot* bigger = static_cast<Slot*>(calloc(capacity, sizeof(Slot)));
    if (!bigger) return false;
    slots_ = bigger;
    capacity_ = capacity;
    for (uint32_t i = 0; i < old_capacity; ++i) {
      if (old[i].value) place(old[i].key, old[i].value);
    }
    free(old);
    return true;
  }

  Slot* slots_ = nullptr;
  uint32_t capacity_ = 0;  // a power of two
  uint32_t used_ = 0;
};

}  // namespace warpsight
