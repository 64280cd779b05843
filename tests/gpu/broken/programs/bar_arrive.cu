// Warps 0 and 1 wait at barrier 1 for 128 threads. Warp 2 tells it that it has come and goes on; warp 3 does neither. Both wait
// for the block at barrier 0.
#include "check.cuh"

__device__ __forceinline__ void take() {
  asm volatile("bar.sync 1, 128;" ::: "memory");  // @take
}

__device__ __forceinline__ void hand_over() { asm volatile("bar.arrive 1, 128;" ::: "memory"); }

__global__ void bar_arrive(int* out) {
  int warp = threadIdx.x / 32;
  if (warp < 2) take();  // @consumers
  if (warp == 2) hand_over();
  __syncthreads();  // @barrier
  out[threadIdx.x] = 1;
}

int main() {
  bar_arrive<<<1, 128>>>(zeroed<int>(128));
  return finish();
}
