// A consumer spins on a flag that no producer ever sets.
#include "check.cuh"

__device__ __forceinline__ void wait_until_set(const volatile int* flag) {
  while (*flag == 0) {}  // @spin
}

__device__ __forceinline__ void consume(const volatile int* flag, int* out) {
  wait_until_set(flag);  // @wait
  out[threadIdx.x] = 1;
}

__global__ void spin_flag(const int* flag, int* out) {
  consume(flag + blockIdx.x, out);  // @consume
}

int main() {
  spin_flag<<<2, 64>>>(zeroed<int>(2), zeroed<int>(64));
  return finish();
}
