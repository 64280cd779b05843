// Device timestamps on the host's CLOCK_MONOTONIC.
#pragma once

#include <atomic>
#include <cstdint>

#include "../ring/lock.h"
#include "functions.h"

namespace warpsight {

// The four profiling timestamps of a command, in the device's clock.
struct DeviceTimes {
  uint64_t queued, submitted, start, end;
};

// When the host saw that command: entry and return of the enqueue call, and its completion.
struct HostTimes {
  uint64_t entry, returned, completed;
};

// The offset host - device is kept as an interval that must hold the truth. Each command bounds it: it was
// queued after the call began and before it returned, and it ended before we heard so. The intersection of
// many such intervals is much narrower than any one of them. Between samples the interval widens by the drift
// two clocks may have; when it becomes empty the clock has jumped and it starts again. Where the driver
// answers clGetDeviceAndHostTimer, that call, bracketed by two readings of our clock, is one more such
// interval and usually the narrowest.
class DeviceClock {
 public:
  explicit DeviceClock(cl_device_id device, uint32_t index) : device_(device), index_(index) {}

  // Learns from one finished command. False when its timestamps cannot be: zero or out of order.
  bool learn(const DeviceTimes& device, const HostTimes& host);
  // Asks the driver's timer, when it has one.
  void read_timer();
  // Writes a Clock row if something has been learned since the last one and a second has passed (or `now`).
  void report(bool now);

  uint64_t to_host(uint64_t device_time) const {
    return device_time + static_cast<uint64_t>(offset_.load(std::memory_order_relaxed));
  }
  uint64_t uncertainty() const;

 private:
  void narrow(int64_t lower, int64_t upper, uint64_t when, uint64_t device_time);

  const cl_device_id device_;
  const uint32_t index_;
  std::atomic<int64_t> offset_{0};  // middle of the interval; written under the lock, read without
  mutable SpinLock lock_;           // protects everything below
  bool known_ = false;
  bool timer_refused_ = false;
  bool queued_unusable_ = false;  // its queued stamps contradict its end stamps: another clock
  int64_t lower_ = 0, upper_ = 0;
  uint64_t learnt_at_ = 0;      // host time the interval is valid for
  uint64_t learnt_device_ = 0;  // device time of the same moment
  uint64_t reported_at_ = 0;
};

}  // namespace warpsight
