#include "capsule/host_room.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include "capsule/driver.h"
#include "runtime/available_memory.h"
#include "runtime/own_signals.h"

namespace warpsight {
namespace {

constexpr uint64_t kMost = 8ull << 30;  // bytes made in advance
constexpr uint64_t kAdvanceShare = 8;   // an eighth of the host's free memory, at most
constexpr uint64_t kTakenShare = 2;     // a half for copies in all
constexpr uint64_t kPart = 64u << 20;   // made and pinned together
constexpr uint64_t kHugePage = 2u << 20;

char* reserve(uint64_t bytes) {
  void* const found =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  madvise(found, bytes, MADV_HUGEPAGE);
  madvise(found, bytes, MADV_DONTFORK);
  return static_cast<char*>(found);
}

bool limited() {
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

// Makes pages, whatever another thread writes there meanwhile.
void make_pages(char* at, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (uint64_t i = 0; i < bytes; i += 4096) __atomic_fetch_or(at + i, 0, __ATOMIC_RELAXED);
}

}  // namespace

uint64_t HostRoom::most() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_known_) {
    is_known_ = true;
    most_ = limited() ? 0 : std::min(kMost, available_memory() / kAdvanceShare) / kPart * kPart;
  }
  return most_;
}

void HostRoom::expect(CUcontext context, uint64_t bytes) {
  const uint64_t most = this->most();
  std::lock_guard<std::mutex> lock(mutex_);
  if (most == 0 || stopped_) return;
  if (region_ == nullptr && (region_ = reserve(most)) == nullptr) return;
  expected_ = std::max(expected_, std::min((bytes + kPart - 1) / kPart * kPart, most));
  if (!thread_.joinable()) {
    context_ = context;
    const StartingThread starting;
    thread_ = std::thread([this] { make(); });
  }
  changed_.notify_one();
}

bool HostRoom::pin(char* at, uint64_t bytes) {
  return context_ != nullptr && cu().pin(at, bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
}

void HostRoom::make() {
  OwnCalls own;
  InContext here(context_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (uint64_t made = 0;; made += kPart) {
    changed_.wait(lock, [&] { return stopped_ || made < expected_; });
    if (stopped_) return;
    char* const at = region_ + made;
    lock.unlock();
    make_pages(at, kPart);
    const bool is_pinned = pin(at, kPart);
    lock.lock();
    pinned_.push_back(is_pinned);
  }
}

char* HostRoom::take(uint64_t bytes) {
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  std::lock_guard<std::mutex> lock(mutex_);
  if (region_ != nullptr && taken_ + bytes <= most_) {
    char* const found = region_ + taken_;
    taken_ += bytes;
    return found;
  }
  return bytes <= available_memory() / kTakenShare ? reserve(bytes) : nullptr;
}

HostRoom::Stretch HostRoom::stretch(const char* at, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (region_ == nullptr || at < region_ || at >= region_ + most_) return {bytes, false};
  const auto offset = static_cast<uint64_t>(at - region_);
  const uint64_t part = offset / kPart;
  return {std::min(bytes, (part + 1) * kPart - offset), part < pinned_.size() && pinned_[part]};
}

void HostRoom::stop(bool hung) {
  std::thread thread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    thread.swap(thread_);
  }
  changed_.notify_one();
  if (thread.joinable()) hung ? thread.detach() : thread.join();
  if (hung) return;  // what is there stays until the process ends
  std::lock_guard<std::mutex> lock(mutex_);
  if (region_ == nullptr) return;
  InContext here(context_);
  for (size_t i = 0; i < pinned_.size(); ++i)
    if (pinned_[i]) cu().cuMemHostUnregister(region_ + i * kPart);
  if (taken_ < most_) munmap(region_ + taken_, most_ - taken_);
  region_ = nullptr;
  pinned_.clear();
}

}  // namespace warpsight
