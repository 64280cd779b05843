// Two blocks take two locks in opposite order: each has one and waits for the other's.
#include "check.cuh"

__device__ __forceinline__ void acquire(int* lock) {
  while (atomicCAS(lock, 0, 1) != 0) {}  // @acquire
}

__device__ __forceinline__ void move(int* first, int* second, unsigned* ready, int* out) {
  acquire(first);  // @first
  atomicAdd(ready, 1);
  while (atomicAdd(ready, 0) < 2) {}  // both have their first lock
  acquire(second);  // @second
  out[0] += 1;
  atomicExch(second, 0);
  atomicExch(first, 0);
}

__global__ void lock_order(int* locks, unsigned* ready, int* out) {
  if (threadIdx.x == 0) {
    int mine = blockIdx.x;
    move(locks + 32 * mine, locks + 32 * (1 - mine), ready, out);  // @move
  }
  __syncthreads();  // @others
}

int main() {
  lock_order<<<2, 64>>>(zeroed<int>(64), zeroed<unsigned>(1), zeroed<int>(1));
  return finish();
}
