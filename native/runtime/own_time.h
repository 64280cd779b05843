// How much of the program's time the recorder takes: every kOwnSampled-th of its stays on a thread of the
// program is timed.
#pragma once

#include <cstdint>

#include "ring/ring.h"
#include "runtime/runtime.h"

namespace warpsight {

// In the order of layout.py's OWN_SITES.
enum class OwnSite : uint32_t { cuda, range, opencl };

// Stands for one stay in the recorder, from construction to destruction.
class OwnTime {
 public:
  explicit OwnTime(OwnSite site) : site_(static_cast<uint32_t>(site)) {
    if (__builtin_expect(++t_stays[site_] % kOwnSampled == 0, false)) start_ = now_ns();
  }
  ~OwnTime() {
    if (__builtin_expect(start_ != 0, false)) add();
  }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  void add();  // to the arena's header, for all stays since the last one timed
  static thread_local uint32_t t_stays[4];
  uint32_t site_;
  uint64_t start_ = 0;  // 0: this stay is not timed
};

}  // namespace warpsight
