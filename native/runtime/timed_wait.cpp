#include "runtime/timed_wait.h"

#include <dlfcn.h>
#include <errno.h>
#include <time.h>

namespace warpsight {
namespace {

// glibc has them since 2.30; without them, these waits use the wall clock.
using LockUntil = int (*)(pthread_mutex_t*, clockid_t, const timespec*);
using WaitUntil = int (*)(sem_t*, clockid_t, const timespec*);

void* newer(const char* name) {
#ifdef __SANITIZE_THREAD__  // which would not recognize a lock it does not intercept
  (void)name;
  return nullptr;
#else
  return dlsym(RTLD_DEFAULT, name);
#endif
}

timespec after(clockid_t clock, uint32_t ms) {
  timespec at;
  clock_gettime(clock, &at);
  at.tv_sec += ms / 1000;
  at.tv_nsec += static_cast<long>(ms % 1000) * 1000000;
  if (at.tv_nsec >= 1000000000) {
    at.tv_nsec -= 1000000000;
    ++at.tv_sec;
  }
  return at;
}

}  // namespace

timespec deadline_after(uint32_t ms) { return after(CLOCK_MONOTONIC, ms); }

bool lock_within(pthread_mutex_t* lock, uint32_t ms) {
  static const auto lock_until = reinterpret_cast<LockUntil>(newer("pthread_mutex_clocklock"));
  const timespec at = after(lock_until != nullptr ? CLOCK_MONOTONIC : CLOCK_REALTIME, ms);
  if (lock_until != nullptr) return lock_until(lock, CLOCK_MONOTONIC, &at) == 0;
  return pthread_mutex_timedlock(lock, &at) == 0;
}

void wait_within(sem_t* semaphore, uint32_t ms) {
  static const auto wait_until = reinterpret_cast<WaitUntil>(newer("sem_clockwait"));
  const timespec at = after(wait_until != nullptr ? CLOCK_MONOTONIC : CLOCK_REALTIME, ms);
  while ((wait_until != nullptr ? wait_until(semaphore, CLOCK_MONOTONIC, &at)
                                : sem_timedwait(semaphore, &at)) != 0 &&
         errno == EINTR) {
  }
}

void use_monotonic_clock(pthread_cond_t* condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

}  // namespace warpsight
