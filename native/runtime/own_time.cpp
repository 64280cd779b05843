#include "runtime/own_time.h"

namespace warpsight {

thread_local uint32_t OwnTime::t_stays[4];

void OwnTime::add() {
  const uint64_t took = now_ns() - start_;
  ArenaHeader* header = arena();
  if (!header) return;
  // Relaxed: sums that the launcher reads when the process has ended; nothing is published by them.
  __atomic_fetch_add(&header->own_calls[site_], kOwnSampled, __ATOMIC_RELAXED);
  __atomic_fetch_add(&header->own_ns[site_], took * kOwnSampled, __ATOMIC_RELAXED);
}

}  // namespace warpsight
