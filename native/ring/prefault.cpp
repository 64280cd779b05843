// Page faults before they hurt: the first store to a page of the arena costs about a microsecond, once per
// page.
#include <sys/mman.h>
#include <unistd.h>

#include "ring/arena.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL and nothing is lost
#endif

namespace warpsight {

bool populate(const void* address, uint64_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  // Blocks are aligned to 4 KiB only: where pages are larger, the first one begins in the block before.
  const uintptr_t first = reinterpret_cast<uintptr_t>(address);
  const uintptr_t start = first & ~(page - 1);
  return madvise(reinterpret_cast<void*>(start), first - start + bytes, MADV_POPULATE_WRITE) == 0;
}

namespace {

// How far each ring's blocks have been touched. Our thread only.
struct Touched {
  uint32_t writer;
  uint32_t blocks;
};
Touched g_touched[kRingCapacity];

}  // namespace

void prefault_rings() {
  const ArenaMap* map = arena_map();
  if (!map) return;
  const uint32_t count = __atomic_load_n(&map->header->ring_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count && i < kRingCapacity; ++i) {
    const RingDescriptor* ring = &map->rings[i];
    if (__atomic_load_n(&ring->state, __ATOMIC_ACQUIRE) != 1) continue;
    Touched& touched = g_touched[i];
    const uint64_t produced = __atomic_load_n(&ring->produced, __ATOMIC_RELAXED);
    const uint32_t writer = __atomic_load_n(&ring->writer, __ATOMIC_RELAXED);
    if (touched.writer != writer) touched = {writer, static_cast<uint32_t>(produced) + 1};
    // As many blocks ahead as the ring has filled since it was claimed: busy rings only, twice as far each
    // time.
    const uint64_t wanted = produced * 2 + (produced ? 1 : 0);
    if (touched.blocks >= ring->block_count || touched.blocks >= wanted) continue;
    const uint64_t end = wanted < ring->block_count ? wanted : ring->block_count;
    populate(map->blocks + (ring->first_block + touched.blocks) * uint64_t{kBlockBytes},
             (end - touched.blocks) * kBlockBytes);
    touched.blocks = static_cast<uint32_t>(end);
  }
}

}  // namespace warpsight
