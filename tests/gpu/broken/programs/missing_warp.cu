// Warps 0-4 are to meet at named barrier 5, but warp 4 still waits for a word in shared memory that nobody writes.
#include "check.cuh"

__device__ __forceinline__ void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");  // @meet
}

__device__ __forceinline__ void wait_for_word(volatile int* word) {
  while (*word == 0) __nanosleep(100);  // @spin
}

__global__ void missing_warp(int* out, int id) {
  __shared__ volatile int word;
  if (threadIdx.x == 0) word = 0;
  __syncthreads();
  int warp = threadIdx.x / 32;
  if (warp == 4) wait_for_word(&word);  // @late
  if (warp < 5) meet(id, 160);  // @group
  __syncthreads();  // @barrier
  out[threadIdx.x] = 1;
}

int main() {
  missing_warp<<<1, 192>>>(zeroed<int>(192), 5);
  return finish();
}
