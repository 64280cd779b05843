// Payloads seen before, and the ids of what they said. Programs attach the same ones to each turn of a loop,
// and hundreds of them in turn: XLA describes every operation of a computation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight::nvtx {

struct Said {
  uint32_t attributes, message;  // ids of texts
};

// One payload to look up: its bytes under one schema, which say it all.
struct PayloadKey {
  const void* schema;
  const uint8_t* bytes;
  uint32_t size;
  uint64_t hash;  // of all that
};
PayloadKey payload_key(const void* schema, const void* bytes, uint32_t size);

// What is known of a payload; false when it is new. From any thread; takes a lock for the look.
bool find_payload(const PayloadKey& key, Said* said);
// Keeps it, with a copy of its bytes, as long as the ids are good.
void keep_payload(const PayloadKey& key, Said said);

}  // namespace warpsight::nvtx
