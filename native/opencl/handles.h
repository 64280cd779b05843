// A map from OpenCL handles to small values: open addressing under a spin lock, allocating only when it
// grows. Entries of destroyed objects may stay: a new object at the same address overwrites them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "../ring/lock.h"

namespace warpsight {

template <class Value>
class HandleMap {
  static_assert(std::is_trivially_copyable<Value>::value, "entries are moved with memcpy");

 public:
  bool get(const void* key, Value* value) {
    LockGuard guard(lock_);
    Entry* entry = find(key);
    if (!entry) return false;
    *value = entry->value;
    return true;
  }

  void put(const void* key, const Value& value) {
    LockGuard guard(lock_);
    if (Entry* entry = find(key)) {
      entry->value = value;
      return;
    }
    if ((used_ + 1) * 2 > capacity_ && !grow()) return;
    insert(key, value);
  }

  // Applies `change` to the value under the lock; removes the entry when it returns true.
  template <class Change>
  bool change(const void* key, Change change) {
    LockGuard guard(lock_);
    Entry* entry = find(key);
    if (!entry) return false;
    if (change(entry->value)) erase(entry);
    return true;
  }

  template <class Visit>
  void each(Visit visit) {
    LockGuard guard(lock_);
    for (size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].key) visit(entries_[i].value);
    }
  }

 private:
  struct Entry {
    const void* key;
    Value value;
  };

  static size_t hash(const void* key) {
    uint64_t x = reinterpret_cast<uint64_t>(key) >> 4;
    return static_cast<size_t>((x * 0x9E3779B97F4A7C15ull) >> 17);
  }

  Entry* find(const void* key) {
    if (!capacity_ || !key) return nullptr;
    for (size_t i = hash(key) & (capacity_ - 1); entries_[i].key; i = (i + 1) & (capacity_ - 1)) {
      if (entries_[i].key == key) return &entries_[i];
    }
    return nullptr;
  }

  void insert(const void* key, const Value& value) {
    size_t i = hash(key) & (capacity_ - 1);
    while (entries_[i].key) i = (i + 1) & (capacity_ - 1);
    entries_[i].key = key;
    entries_[i].value = value;
    ++used_;
  }

  bool grow() {
    size_t old_capacity = capacity_;
    Entry* old = entries_;
    size_t capacity = capacity_ ? capacity_ * 2 : 64;
    auto* fresh = static_cast<Entry*>(calloc(capacity, sizeof(Entry)));
    if (!fresh) return false;
    entries_ = fresh;
    capacity_ = capacity;
    used_ = 0;
    for (size_t i = 0; i < old_capacity; ++i) {
      if (old[i].key) insert(old[i].key, old[i].value);
    }
    free(old);
    return true;
  }

  // Linear probing without tombstones: later entries of the run move up into the hole.
  void erase(Entry* entry) {
    size_t hole = static_cast<size_t>(entry - entries_);
    size_t mask = capacity_ - 1;
    for (size_t i = (hole + 1) & mask; entries_[i].key; i = (i + 1) & mask) {
      size_t home = hash(entries_[i].key) & mask;
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole].key = nullptr;
    --used_;
  }

  SpinLock lock_;  // protects everything below
  Entry* entries_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
};

}  // namespace warpsight
