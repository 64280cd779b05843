// Memory stress: kernels of our own beside the program's, which run as they are.
#pragma once

#include <cuda.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "sanitizer/delay_rule.h"

namespace warpsight {

// Launches kernels that hammer memory in each device's primary context, as long as the process lives. They
// differ in their blocks, lines, accesses and length, which follow from the seed and their number. Some take
// whole multiprocessors, so that the program's blocks come to others than usual. Each ends by itself, so a
// wait for the device ends too.
class MemoryStress {
 public:
  explicit MemoryStress(const WsRule& rule);
  void start();
  // A trial begins: kernels count from 0 again; `on` false: none is launched.
  void begin_trial(uint64_t seed, bool on);
  // Ends the thread; false when stress was asked for and no kernel was launched.
  bool stop();

 private:
  struct Device {
    CUcontext context = nullptr;
    CUfunction kernel = nullptr;
    CUdeviceptr words = 0;
    CUstream streams[2] = {};
    uint32_t multiprocessors = 0, most_shared = 0, mask = 0;
    bool failed = false;
  };
  void run();
  bool prepare(CUdevice number, Device* device);
  bool load(CUdevice number, Device* device);
  bool launch_next(CUdevice number, Device* device, uint64_t kernel);

  std::mutex mutex_;  // protects what follows up to the threshold
  WsRule rule_;
  uint64_t next_ = 0;  // kernel
  bool wanted_;        // kernels, in a trial or, where there are none, in the process
  bool trials_ = false;
  const unsigned long long threshold_;  // of the plan as it was read
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> launched_{0};
  std::vector<Device> devices_;  // the thread's
  std::thread thread_;
};

}  // namespace warpsight
