// A launch that hangs, cut out while it does: nothing here waits for the GPU's other work.
#include <sys/mman.h>

#include <algorithm>
#include <fstream>

#include "capsule/recorder.h"

namespace warpsight {
namespace {

// Bytes of the output, mapped; null when they cannot be.
class Mapped {
 public:
  Mapped(int file, uint64_t offset, uint64_t size)
      : size_(size), at_(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, static_cast<off_t>(offset))) {}
  ~Mapped() {
    if (at_ != MAP_FAILED) munmap(at_, size_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  const void* bytes() const { return at_ != MAP_FAILED ? at_ : nullptr; }

 private:
  const uint64_t size_;
  void* const at_;
};

}  // namespace

// The launcher names the launch in a file before it sends the signal.
bool CapsuleRecorder::cut_hung() {
  std::ifstream file(request_.folder + "/hung");
  uint64_t begin = 0, end = 0;
  int thread = 0;
  if (recent_ == nullptr || !(file >> begin >> end >> thread)) return false;
  // Our callback runs inside the call, or just before the trace's start time of it, because the thread may
  // have been preempted in between. It is the thread's last launch until the call returned.
  constexpr uint64_t kPreemptedNs = 1'000'000'000;
  auto launch = std::make_unique<KeptLaunch>();
  if (!recent_->find(thread, begin - std::min(begin, kPreemptedNs), end, launch.get())) {
    refuse("the launch that hangs was not kept: too many came after it, or its parameters are too large");
    return true;
  }
  OwnCalls own;
  InContext here(launch->context);
  context_ = launch->context;
  begin_ns_ = time_ns();
  hung_ = true;
  std::string why = describe_device(context_);
  state_.store(State::open, std::memory_order_release);
  std::vector<void*> given;
  Json json("operation");
  Addresses addresses;
  if (why.empty()) why = describe(launch->restored(&given), launch->kernel, nullptr, &json, &addresses);
  if (why.empty()) why = hold(addresses);
  if (!why.empty()) return refuse(why), true;
  pending_ = json.number("host_time", 0).done();
  keep_unfinished(
      "the work hung: contents are those of memory while it did, with what it had written by then");
  return true;
}

// Takes contents first: they are searched in the output.
std::string CapsuleRecorder::take_hung(std::vector<Held*> fresh) {
  const std::vector<Block> all = memory_.all();
  std::vector<HeldGlobal> globals = std::move(fresh_globals_);
  fresh_globals_.clear();
  while (!fresh.empty() || !globals.empty()) {
    const size_t before = extents_.size();
    std::string why = take(fresh, globals, "before");
    std::vector<uint32_t> points(all.size());
    for (size_t i = before; why.empty() && request_.contents && i < extents_.size(); ++i) {
      const Mapped mapped(output_.data(), extents_[i].first, extents_[i].second);
      if (mapped.bytes() == nullptr) return "what was copied cannot be searched for addresses";
      search_host({reinterpret_cast<uint64_t>(mapped.bytes()), extents_[i].second, true}, all, &points);
    }
    fresh.clear(), globals.clear();
    for (size_t i = 0; why.empty() && i < all.size(); ++i)
      if (points[i] != 0) why = add_blocks(memory_.reached_with(all[i]), "memory that is reached", &fresh);
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace warpsight
