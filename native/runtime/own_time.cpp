#include "runtime/own_time.h"

namespace warpsight {
namespace {

// A longer stay is rare (the thread was preempted, or the ring was full) and counts only as itself.
constexpr uint64_t kUsualMost = 50'000;

}  // namespace

thread_local OwnTime::Next OwnTime::t_next[4] = {kFirst, kFirst, kFirst, kFirst};

void OwnTime::add() {
  const uint64_t took = now_ns() - start_;
  const uint32_t stays = next_.distance;
  next_.random = next_.random * 1664525 + 1013904223;  // Numerical Recipes' generator: its high bits are good
  next_.left = next_.distance = kOwnSampled / 2 + (next_.random >> 16) % kOwnSampled;
  ArenaHeader* header = arena();
  if (!header) return;
  const auto site = static_cast<uint32_t>(site_);
  // Relaxed: sums that the launcher reads after the process has exited; they publish nothing.
  __atomic_fetch_add(&header->own_calls[site], stays, __ATOMIC_RELAXED);
  __atomic_fetch_add(&header->own_ns[site], took * (took < kUsualMost ? stays : 1), __ATOMIC_RELAXED);
}

}  // namespace warpsight
