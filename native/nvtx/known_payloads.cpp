#include "nvtx/known_payloads.h"

#include <stdlib.h>
#include <string.h>

#include "ring/lock.h"
#include "ring/ring.h"

namespace warpsight::nvtx {
namespace {

struct Entry {
  uint64_t hash;
  const void* schema;  // null: empty
  uint8_t* bytes;
  uint32_t size, generation;  // definitions_generation() of the ids
  Said said;
};

// Open addressing, doubled when three quarters are full.
struct alignas(64) Shard {
  SpinLock lock;  // protects the rest
  Entry* entries = nullptr;
  size_t capacity = 0, used = 0;
};
constexpr size_t kShards = 16, kFirstCapacity = 64;
Shard g_shards[kShards];

Shard& shard_of(const PayloadKey& key) { return g_shards[key.hash >> 60]; }

bool same(const Entry& entry, const PayloadKey& key) {
  return entry.hash == key.hash && entry.schema == key.schema && entry.size == key.size &&
         memcmp(entry.bytes, key.bytes, key.size) == 0;
}

// The payload's entry, or the empty one where it belongs.
Entry* place_of(Entry* entries, size_t capacity, const PayloadKey& key) {
  size_t at = key.hash & (capacity - 1);
  while (entries[at].schema != nullptr && !same(entries[at], key)) at = (at + 1) & (capacity - 1);
  return &entries[at];
}

bool grow(Shard* shard) {
  const size_t capacity = shard->capacity == 0 ? kFirstCapacity : shard->capacity * 2;
  auto* entries = static_cast<Entry*>(calloc(capacity, sizeof(Entry)));
  if (entries == nullptr) return false;
  for (size_t i = 0; i < shard->capacity; ++i) {
    const Entry& old = shard->entries[i];
    if (old.schema == nullptr) continue;
    size_t at = old.hash & (capacity - 1);
    while (entries[at].schema != nullptr) at = (at + 1) & (capacity - 1);
    entries[at] = old;
  }
  free(shard->entries);
  shard->entries = entries;
  shard->capacity = capacity;
  return true;
}

}  // namespace

PayloadKey payload_key(const void* schema, const void* bytes, uint32_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  uint64_t hash = reinterpret_cast<uintptr_t>(schema) + size;
  for (uint32_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    memcpy(&word, at + i, size - i < 8 ? size - i : 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return {schema, at, size, hash};
}

bool find_payload(const PayloadKey& key, Said* said) {
  Shard& shard = shard_of(key);
  LockGuard guard(shard.lock);
  if (shard.capacity == 0) return false;
  const Entry& entry = *place_of(shard.entries, shard.capacity, key);
  if (entry.schema == nullptr || entry.generation != definitions_generation()) return false;
  *said = entry.said;
  return true;
}

void keep_payload(const PayloadKey& key, Said said) {
  Shard& shard = shard_of(key);
  LockGuard guard(shard.lock);
  if (shard.used * 4 >= shard.capacity * 3 && !grow(&shard)) return;
  Entry& entry = *place_of(shard.entries, shard.capacity, key);
  if (entry.schema == nullptr) {
    auto* bytes = static_cast<uint8_t*>(malloc(key.size));
    if (bytes == nullptr) return;
    memcpy(bytes, key.bytes, key.size);
    entry = {key.hash, key.schema, bytes, key.size, 0, {}};
    ++shard.used;
  }
  entry.generation = definitions_generation();
  entry.said = said;
}

}  // namespace warpsight::nvtx
