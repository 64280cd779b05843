// The differences between CUPTI releases: known problems of each, and which fields of a record exist.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace warpsight {

// cuptiGetVersion: small numbers up to CUDA 12.9 (19: 12.0, 24: 12.6, 28: 12.9 U1), then major-minor-update
// as 130001.
constexpr uint32_t kOldestCupti = 19;
constexpr uint32_t kCupti122 = 20, kCupti126 = 24, kCupti128 = 26, kCupti129 = 27;

// One sentence for the trace about every known problem of this version that affects a recording, or "".
std::string known_problems(uint32_t version);

// Bytes of each record as the loaded CUPTI writes it. Releases only ever append fields, so a record is read
// through the newest struct and a field only when it is inside these bytes.
struct RecordSizes {
  size_t kernel, memcpy, memcpy_peer, memset, synchronization, event, memory, pool, overhead;
};
RecordSizes record_sizes(uint32_t version);

// True when `Struct::field` is within the first `size` bytes.
#define WARPSIGHT_HAS(size, Struct, field) (offsetof(Struct, field) + sizeof(Struct::field) <= (size))

}  // namespace warpsight
