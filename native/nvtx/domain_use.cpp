#include "nvtx/domain_use.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "runtime/runtime.h"

namespace warpsight::nvtx {
namespace {

constexpr uint32_t kWindow = 1024, kWindows = 3;  // ranges that are judged together, and how often in a row
constexpr uint64_t kMostShare = 20;               // one part in this of a thread's time
constexpr uint64_t kAroundNs = 60;  // of each range: NVTX's call of us, and what the library does for it
std::atomic<bool> g_told{false};

bool any_of(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What a range takes, by the stays of ours that are timed; 0 before the first.
uint64_t range_ns() {
  const ArenaHeader* header = arena();
  if (header == nullptr) return 0;
  constexpr auto kSite = static_cast<uint32_t>(OwnSite::range);
  const uint64_t calls = __atomic_load_n(&header->own_calls[kSite], __ATOMIC_RELAXED);
  return calls == 0 ? 0 : 2 * __atomic_load_n(&header->own_ns[kSite], __ATOMIC_RELAXED) / calls + kAroundNs;
}

}  // namespace

DomainUse use_of_domain(const std::string& name) {
  const std::vector<std::string>& words = settings().ranges;
  const bool xla = name == kXlaDomain;
  const bool chosen =
      std::any_of(words.begin(), words.end(), [](const auto& word) { return word != "torch"; });
  if (any_of(words, xla ? "xla" : "nvtx")) return DomainUse::recorded;
  if (!chosen || any_of(words, "auto")) return xla ? DomainUse::while_cheap : DomainUse::recorded;
  if (name.empty() && any_of(words, "torch")) return DomainUse::recorded;  // where PyTorch announces them
  for (const std::string& word : words) {
    if (!name.empty() && fnmatch(word.c_str(), name.c_str(), 0) == 0) return DomainUse::recorded;
  }
  return xla ? DomainUse::refused : DomainUse::left_out;
}

bool too_costly(RangeCost* cost) {
  if (cost->generation != definitions_generation() || cost->since == 0)
    *cost = {definitions_generation(), 0, 0, false, now_ns()};
  if (cost->muted || cost->counted < kWindow) return cost->muted;
  const uint64_t now = now_ns(), spent = cost->counted * range_ns();
  cost->costly = spent * kMostShare > now - cost->since ? cost->costly + 1 : 0;
  cost->since = now;
  cost->counted = 0;
  cost->muted = cost->costly == kWindows;
  if (cost->muted && !g_told.exchange(true)) {
    report_loss("nvtx",
                "XLA's ranges took more than 5 % of a thread's time and are left out from here on: kernels "
                "keep the names of their HLO operations; --ranges xla records every range",
                1, Severity::note);
  }
  return cost->muted;
}

}  // namespace warpsight::nvtx
