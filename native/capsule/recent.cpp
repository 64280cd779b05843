#include "capsule/recent.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace warpsight {
namespace {

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

int this_thread() {
  thread_local const int id = gettid();
  return id;
}

// The parameters, one after another as the kernel takes them.
bool pack(const Work& work, const Kernel& kernel, char* packed) {
  if (kernel.bytes > KeptLaunch::kBytes || work.params == nullptr) return kernel.bytes == 0;
  for (size_t i = 0; i < kernel.params.size(); ++i)
    memcpy(packed + kernel.params[i].first, work.params[i], kernel.params[i].second);
  return true;
}

}  // namespace

Work KeptLaunch::restored(std::vector<void*>* given) {
  Work made = work;
  given->clear();
  for (size_t i = 0; kernel != nullptr && i < kernel->params.size(); ++i)
    given->push_back(packed + kernel->params[i].first);
  made.params = given->data(), made.extra = nullptr, made.attributes = attributes;
  return made;
}

void RecentLaunches::add(CUcontext context, const Work& work, const Kernel* kernel) {
  const uint64_t sequence = next_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = slots_[sequence % kSlots];
  slot.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // before what follows is changed
  slot.launch.whole = work.attribute_count <= KeptLaunch::kAttributes &&
                      (kernel == nullptr || pack(work, *kernel, slot.launch.packed));
  if (slot.launch.whole) std::copy_n(work.attributes, work.attribute_count, slot.launch.attributes);
  slot.launch.time = monotonic_ns();
  slot.launch.thread = this_thread();
  slot.launch.context = context;
  slot.launch.kernel = kernel;
  slot.launch.work = work;
  slot.sequence.store(sequence, std::memory_order_release);
}

bool RecentLaunches::find(int thread, uint64_t begin, uint64_t end, KeptLaunch* found) const {
  uint64_t latest = 0;
  for (size_t i = 0; i < kSlots; ++i) {
    const Slot& slot = slots_[i];
    const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
    const KeptLaunch& launch = slot.launch;
    if (sequence <= latest || launch.thread != thread || launch.time < begin || launch.time > end) continue;
    const KeptLaunch copy = launch;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.sequence.load(std::memory_order_relaxed) == sequence) *found = copy, latest = sequence;
  }
  return latest != 0 && found->whole;
}

}  // namespace warpsight
