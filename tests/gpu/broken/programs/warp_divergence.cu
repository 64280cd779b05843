// The even lanes of a warp wait for all 32 lanes; lanes 1 and 3 have left the kernel, the other odd ones spin.
#include "check.cuh"

__device__ __forceinline__ void spin(const volatile int* flag) {
  while (*flag == 0) {}  // @spin
}

__global__ void warp_divergence(const int* flag, int* out) {
  int lane = threadIdx.x;
  if (lane == 1 || lane == 3) return;
  if (lane % 2 == 0) {
    __syncwarp(0xfffffff5);  // @warp
  } else {
    spin(flag);  // @odd
  }
  out[lane] = 1;
}

int main() {
  warp_divergence<<<1, 32>>>(zeroed<int>(1), zeroed<int>(32));
  return finish();
}
