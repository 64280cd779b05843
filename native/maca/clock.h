// MCPTI's clock relative to CLOCK_MONOTONIC. Its records use a clock of its own, which mcptiGetTimestamp
// reads too; readings of both clocks at one moment give their offset.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight {

// One moment on both clocks: MCPTI's was read after `before` and before `after`.
struct ClockPair {
  uint64_t theirs, before, after;
};

class ClockFit {
 public:
  void add(const ClockPair& pair);
  bool empty() const { return count_ == 0; }
  // CLOCK_MONOTONIC of a time on their clock. One constant offset while it agrees with every pair, which
  // keeps durations exact; else by the line through the neighboring pairs.
  uint64_t host(uint64_t theirs) const;
  // Half the interval that must contain the offset, ns; of the newest pair if there is no single offset.
  uint64_t uncertainty() const;
  // The newest pair.
  const ClockPair& last() const { return pairs_[count_ - 1]; }

 private:
  void thin();

  static constexpr size_t kMost = 64;
  ClockPair pairs_[kMost];  // by time
  size_t count_ = 0;
  // Bounds of the offset from all pairs so far; they cross if the clocks drift.
  int64_t lower_ = 0, upper_ = 0;
};

// Reads both clocks now and adds the pair; false if MCPTI does not report its time. Any of our threads.
bool read_mcpti_clock();

// The fit so far; false if there is none, and times are used unchanged.
bool copy_clock_fit(ClockFit* fit);

// Before another recording: clocks may have been set in between.
void forget_clock_fit();

}  // namespace warpsight
