#include "maca/clock.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>

#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr int kReadings = 5;                     // the tightest of them counts
constexpr uint64_t kLeastApartNs = 100'000'000;  // closer pairs replace each other

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects g_fit
ClockFit g_fit;

uint64_t middle(const ClockPair& pair) { return pair.before + (pair.after - pair.before) / 2; }

int64_t difference(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b); }

uint64_t on_line(const ClockPair& a, const ClockPair& b, uint64_t theirs) {
  const auto rise = static_cast<double>(difference(middle(b), middle(a)));
  const auto run = static_cast<double>(difference(b.theirs, a.theirs));
  const double rate = run > 0 && rise > 0 ? rise / run : 1;
  const auto along = static_cast<double>(difference(theirs, a.theirs));
  return middle(a) + static_cast<uint64_t>(std::llround(along * rate));
}

}  // namespace

void ClockFit::add(const ClockPair& pair) {
  const int64_t lower = difference(pair.before, pair.theirs), upper = difference(pair.after, pair.theirs);
  lower_ = count_ == 0 ? lower : std::max(lower_, lower);
  upper_ = count_ == 0 ? upper : std::min(upper_, upper);
  if (count_ > 1 && difference(pair.before, pairs_[count_ - 2].before) < int64_t{kLeastApartNs}) --count_;
  if (count_ == kMost) thin();
  pairs_[count_++] = pair;
}

// Drop every second pair; those in between were close to their line.
void ClockFit::thin() {
  size_t kept = 0;
  for (size_t i = 0; i < count_; i += 2) pairs_[kept++] = pairs_[i];
  count_ = kept;
}

uint64_t ClockFit::host(uint64_t theirs) const {
  if (count_ == 0) return theirs;
  if (lower_ <= upper_) return theirs + static_cast<uint64_t>(lower_ + (upper_ - lower_) / 2);
  if (count_ == 1) return middle(pairs_[0]) + (theirs - pairs_[0].theirs);
  const ClockPair* const end = pairs_ + count_;
  const auto* after = std::upper_bound(pairs_, end, theirs,
                                       [](uint64_t t, const ClockPair& pair) { return t < pair.theirs; });
  if (after == pairs_ || after == end) {  // outside: the longest line is the most exact
    const ClockPair& near = after == end ? end[-1] : pairs_[0];
    const uint64_t shift = middle(near) - on_line(pairs_[0], end[-1], near.theirs);
    return on_line(pairs_[0], end[-1], theirs) + shift;
  }
  return on_line(after[-1], *after, theirs);
}

uint64_t ClockFit::uncertainty() const {
  if (count_ == 0) return 0;
  if (lower_ <= upper_) return static_cast<uint64_t>(upper_ - lower_) / 2 + 1;
  return (last().after - last().before) / 2 + 1;
}

bool read_mcpti_clock() {
  if (cupti().cuptiGetTimestamp == nullptr) return false;
  ClockPair best = {0, 0, ~uint64_t{0}};
  for (int i = 0; i < kReadings; ++i) {
    ClockPair pair = {};
    pair.before = now_ns();
    if (cupti().cuptiGetTimestamp(&pair.theirs) != CUPTI_SUCCESS || pair.theirs == 0) return false;
    pair.after = now_ns();
    if (pair.after - pair.before < best.after - best.before) best = pair;
  }
  pthread_mutex_lock(&g_lock);
  g_fit.add(best);
  pthread_mutex_unlock(&g_lock);
  return true;
}

bool copy_clock_fit(ClockFit* fit) {
  pthread_mutex_lock(&g_lock);
  *fit = g_fit;
  pthread_mutex_unlock(&g_lock);
  return !fit->empty();
}

void forget_clock_fit() {
  pthread_mutex_lock(&g_lock);
  g_fit = ClockFit();
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
