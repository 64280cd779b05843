// Payloads seen before, and the ids of their values. Programs attach the same ones in every iteration, and
// hundreds of them in turn: XLA describes every operation of a computation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight::nvtx {

struct Said {
  uint32_t attributes, message;  // string ids
};

// A payload to look up: its bytes under one schema, which determine its contents.
struct PayloadKey {
  const void* schema;
  const uint8_t* bytes;
  uint32_t size;
  uint64_t hash;  // of all that
};
PayloadKey payload_key(const void* schema, const void* bytes, uint32_t size);

// The cached entry of a payload; false if it is new. From any thread; takes a lock for the lookup.
bool find_payload(const PayloadKey& key, Said* said);
// Caches it, with a copy of its bytes, as long as the ids are valid.
void keep_payload(const PayloadKey& key, Said said);

}  // namespace warpsight::nvtx
