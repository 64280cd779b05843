// Warp 3 of each block spins on a flag that nobody sets; the seven other warps wait for it at the block's barrier.
#include "check.cuh"

__device__ __forceinline__ void spin(const volatile int* flag) {
  while (*flag == 0) {}  // @spin
}

__global__ void flag_before_barrier(const int* flag, int* out) {
  if (threadIdx.x / 32 == 3) spin(flag);  // @late
  __syncthreads();  // @barrier
  out[threadIdx.x] = 1;
}

int main() {
  flag_before_barrier<<<2, 256>>>(zeroed<int>(1), zeroed<int>(256));
  return finish();
}
