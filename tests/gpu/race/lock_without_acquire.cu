// Two blocks count under a lock; the one that takes it may find an old counter in its cache, as it has read a
// word beside it before.
#include "trials.h"

__global__ void lock_without_acquire(int* counter, int* lock, int number) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 1) work(4000);
  const int near = __ldca(counter + 1);
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  if (kFixed) __threadfence();
  int value;
  asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  *counter = value + number + near;
  __threadfence();
  atomicExch(lock, 0);
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 1,
      [](int* words, int number) { lock_without_acquire<<<2, 32>>>(words, words + 512, number); },
      [](int number, int) { return 2 * number; });
}
