// A lock for a few instructions, which a forked child can simply reset: a mutex of the C library could not
// be.
#pragma once

#include <sched.h>

#include <atomic>

namespace warpsight {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; held_.exchange(true, std::memory_order_acquire); ++spins) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++spins > 200) sched_yield();  // the holder may have been preempted
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }
  // In a forked child: whoever held it no longer exists.
  void reset() { held_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> held_{false};
};

class LockGuard {
 public:
  explicit LockGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace warpsight
