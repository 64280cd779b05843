// How much of the program's time the recorder takes: one in kOwnSampled of its stays on a thread of the
// program is timed.
#pragma once

#include <cstdint>

#include "ring/ring.h"
#include "runtime/runtime.h"

namespace warpsight {

// In the order of layout.py's OWN_SITES.
enum class OwnSite : uint32_t { cuda, range, opencl };

// Represents one stay in the recorder, from construction to destruction.
class OwnTime {
 public:
  // The distances between timed stays vary around kOwnSampled: stays come in pairs (the start and the end of
  // a call) and in the program's own rhythm, and a fixed distance would meet the same one each time.
  struct Next {
    uint32_t left, distance, random;
  };
  static constexpr Next kFirst = {kOwnSampled, kOwnSampled, 1};

  explicit OwnTime(OwnSite site) : OwnTime(site, t_next[static_cast<uint32_t>(site)]) {}
  // For a caller that keeps the calling thread's `next` beside other things it needs.
  OwnTime(OwnSite site, Next& next) : next_(next), site_(site) {
    if (__builtin_expect(--next_.left == 0, false)) start_ = now_ns();
  }
  ~OwnTime() {
    if (__builtin_expect(start_ != 0, false)) add();
  }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  void add();  // to the arena's header, for all stays since the last one timed
  static thread_local Next t_next[4];
  Next& next_;
  OwnSite site_;
  uint64_t start_ = 0;  // 0: this stay is not timed
};

}  // namespace warpsight
