#include "clock.h"

#include <time.h>

#include <algorithm>

#include "../runtime/runtime.h"

namespace warpsight {
namespace {

constexpr int64_t kDriftPerMillion = 60;  // a crystal's tolerance plus what NTP slews in practice
constexpr uint64_t kReportEvery = 1000000000;
constexpr int kTimerReadings = 5;

int64_t difference(uint64_t host, uint64_t device) { return static_cast<int64_t>(host - device); }

uint64_t realtime_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void DeviceClock::narrow(int64_t lower, int64_t upper, uint64_t when, uint64_t device_time) {
  if (known_) {
    int64_t elapsed = std::max<int64_t>(0, difference(when, learnt_at_));
    int64_t drift = elapsed / 1000000 * kDriftPerMillion + elapsed % 1000000 * kDriftPerMillion / 1000000;
    lower_ = std::max(lower_ - drift, lower);
    upper_ = std::min(upper_ + drift, upper);
  }
  if (!known_ || lower_ > upper_) {  // the first, or the clock jumped
    lower_ = lower;
    upper_ = upper;
  }
  known_ = true;
  learnt_at_ = when;
  learnt_device_ = device_time;
  offset_.store(lower_ + (upper_ - lower_) / 2, std::memory_order_relaxed);
}

bool DeviceClock::learn(const DeviceTimes& device, const HostTimes& host) {
  if (!device.start || device.end < device.start) return false;
  LockGuard guard(lock_);
  // Without the queued stamp: it began after the call did, and ended before we were notified.
  int64_t lower = difference(host.entry, device.start);
  int64_t upper = difference(host.completed, device.end);
  if (lower > upper) return true;  // a device clock that is not in ns, or too coarse: nothing to learn
  if (device.queued && device.queued <= device.start && !queued_unusable_) {
    int64_t narrow_lower = std::max(lower, difference(host.entry, device.queued));
    int64_t narrow_upper = std::min(upper, difference(host.returned, device.queued));
    if (narrow_lower <= narrow_upper) {
      lower = narrow_lower;
      upper = narrow_upper;
    } else {
      queued_unusable_ = true;
    }
  }
  narrow(lower, upper, host.completed, device.end);
  return true;
}

void DeviceClock::read_timer() {
  if (!g_cl.clGetDeviceAndHostTimer || timer_refused_) return;
  uint64_t best_width = UINT64_MAX, best_middle = 0, best_device = 0;
  for (int i = 0; i < kTimerReadings; ++i) {
    cl_ulong device = 0, host = 0;
    uint64_t before = now_ns();
    if (g_cl.clGetDeviceAndHostTimer(device_, &device, &host) != CL_SUCCESS || !device) {
      timer_refused_ = true;
      return;
    }
    uint64_t width = now_ns() - before;
    if (width >= best_width) continue;
    best_width = width;
    best_middle = before + width / 2;
    best_device = device;
  }
  LockGuard guard(lock_);
  int64_t offset = difference(best_middle, best_device);
  int64_t half = static_cast<int64_t>(best_width / 2 + 1);
  narrow(offset - half, offset + half, best_middle, best_device);
}

uint64_t DeviceClock::uncertainty() const {
  LockGuard guard(lock_);
  return known_ ? static_cast<uint64_t>((upper_ - lower_) / 2 + 1) : UINT32_MAX;
}

void DeviceClock::report(bool at_once) {
  Clock row{};
  {
    LockGuard guard(lock_);
    if (!known_ || learnt_at_ <= reported_at_) return;
    if (!at_once && learnt_at_ - reported_at_ < kReportEvery) return;
    reported_at_ = learnt_at_;
    row.monotonic = learnt_device_ + static_cast<uint64_t>(offset_.load(std::memory_order_relaxed));
    row.device_time = learnt_device_;
    row.uncertainty = static_cast<uint32_t>(std::min<int64_t>((upper_ - lower_) / 2 + 1, UINT32_MAX));
  }
  row.device = index_;
  row.realtime = row.monotonic + (realtime_ns() - now_ns());
  write(row);
}

}  // namespace warpsight
