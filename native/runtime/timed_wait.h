// Waits that take as long as they should when the wall clock is set meanwhile.
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include <time.h>

#include <cstdint>

namespace warpsight {

// Locks, or gives up after so many milliseconds.
bool lock_within(pthread_mutex_t* lock, uint32_t ms);

// Waits for a semaphore, for so many milliseconds at most.
void wait_within(sem_t* semaphore, uint32_t ms);

// Makes a condition whose deadlines are those of `deadline_after`.
void use_monotonic_clock(pthread_cond_t* condition);

// A moment on CLOCK_MONOTONIC.
timespec deadline_after(uint32_t ms);

}  // namespace warpsight
