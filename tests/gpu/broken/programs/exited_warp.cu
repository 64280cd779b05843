// Warps 0 and 1 wait at a barrier that counts 96 threads, but warp 2 has returned; warps 3-7 wait at the block's barrier.
// That lane 5 of warp 4 has returned, too, harms nobody: a barrier of the block is for the threads that are left.
#include "check.cuh"

__device__ __forceinline__ void meet() {
  asm volatile("bar.sync 1, 96;" ::: "memory");  // @meet
}

__global__ void exited_warp(int* out) {
  int warp = threadIdx.x / 32;
  if (warp == 2 || threadIdx.x == 4 * 32 + 5) return;
  if (warp < 2) meet();  // @first
  __syncthreads();  // @barrier
  out[threadIdx.x] = 1;
}

int main() {
  exited_warp<<<1, 256>>>(zeroed<int>(256));
  return finish();
}
