// The latest launches, kept so that one that turns out to hang can still be cut out.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "capsule/modules.h"
#include "capsule/work.h"

namespace warpsight {

// A launch as made, with copies of everything its call pointed to.
struct KeptLaunch {
  static constexpr size_t kBytes = 4096, kAttributes = 8;

  uint64_t time = 0;  // CLOCK_MONOTONIC, ns
  int thread = 0;
  bool whole = false;  // false: it has more parameters or attributes than are kept
  CUcontext context = nullptr;
  const Kernel* kernel = nullptr;  // null: a graph
  Work work;                       // its pointers are those of the call
  CUlaunchAttribute attributes[kAttributes];
  char packed[kBytes];

  // The work, pointing into this; `given` holds the addresses of parameters.
  Work restored(std::vector<void*>* given);
};

class RecentLaunches {
 public:
  RecentLaunches() : slots_(new Slot[kSlots]) {}
  void add(CUcontext context, const Work& work, const Kernel* kernel);
  // The last one that this thread made in begin <= time <= end; false when it is not kept, or not kept any
  // more.
  bool find(int thread, uint64_t begin, uint64_t end, KeptLaunch* found) const;

 private:
  static constexpr size_t kSlots = 2048;  // more than wait in the queue of a channel
  struct Slot {
    std::atomic<uint64_t> sequence{0};  // published last; 0 while it is written
    KeptLaunch launch;
  };
  std::atomic<uint64_t> next_{0};  // of the next launch
  const std::unique_ptr<Slot[]> slots_;
};

}  // namespace warpsight
