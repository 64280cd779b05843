// The drainer as Python's launcher calls it; see src/warpsight/_native/functions.py.
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <algorithm>

#include "ring/crc32.h"
#include "ring/drain.h"

#define WARPSIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint64_t kDefaultSegmentBytes = 64ull << 20;

warpsight::Drainer* drainer_of(void* handle) { return static_cast<warpsight::Drainer*>(handle); }

}  // namespace

// A drainer of the arena behind `arena_fd` (which stays the caller's) that writes segments of about
// `segment_bytes` (0 = 64 MiB) into `directory`. NULL with errno set when the descriptor is not a sound arena
// or the directory unusable.
WARPSIGHT_EXPORT void* ws_drain_open(int arena_fd, const char* directory, uint64_t segment_bytes) {
  if (!directory) {
    errno = EINVAL;
    return nullptr;
  }
  return warpsight::Drainer::open(arena_fd, directory, segment_bytes ? segment_bytes : kDefaultSegmentBytes);
}

// One visit: copies sealed blocks and, when `checkpoint` is not 0, also what open ones hold. Blocks written
// or -errno.
WARPSIGHT_EXPORT int ws_drain_poll(void* handle, int checkpoint) {
  return handle ? drainer_of(handle)->poll(checkpoint != 0) : -EINVAL;
}

// Closes the current segments, however small, so that they can be converted.
WARPSIGHT_EXPORT int ws_drain_rotate(void* handle) {
  if (!handle) return -EINVAL;
  drainer_of(handle)->rotate();
  return 0;
}

// The last visit (everything committed), then closes the segments and frees the drainer.
WARPSIGHT_EXPORT int ws_drain_close(void* handle) {
  if (!handle) return -EINVAL;
  const int result = drainer_of(handle)->finish();
  delete drainer_of(handle);
  return result;
}

// Writes all rows of an unused arena. Returns 0, -EINVAL if it is not an arena, or -errno: then the rows that
// could not be written are still in it.
WARPSIGHT_EXPORT int ws_drain_adopt(int arena_fd, const char* directory) {
  warpsight::Drainer* drainer = warpsight::Drainer::open(arena_fd, directory, kDefaultSegmentBytes);
  if (!drainer) return -errno;
  const int result = drainer->adopt();
  delete drainer;
  return result;
}

// 0 blocks written, 1 bytes written, 2 blocks lost to write errors, 3 rings handed out, 4 rows lost to write
// errors, 5 errno of the last write error, 6 rows lost in rings, 7 damaged blocks and rings skipped.
WARPSIGHT_EXPORT uint64_t ws_drain_statistic(void* handle, int which) {
  return handle ? drainer_of(handle)->statistic(which) : 0;
}

// For the reader of segments: the expected CRC of each of `count` blocks, over the length given in its
// header.
WARPSIGHT_EXPORT void ws_block_crcs(const void* blocks, uint64_t count, uint32_t* crcs) {
  using warpsight::crc32;
  const char* block = static_cast<const char*>(blocks);
  for (uint64_t i = 0; i < count; ++i, block += warpsight::kBlockBytes) {
    warpsight::BlockHeader header;
    memcpy(&header, block, sizeof header);
    const size_t committed = std::min<size_t>(header.committed, warpsight::kBlockPayloadBytes);
    crcs[i] = crc32(crc32(0, block, offsetof(warpsight::BlockHeader, crc)), block + sizeof header, committed);
  }
}
