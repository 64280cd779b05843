// Warps 0-2 wait at named barrier 1 for 128 threads; warp 3 waits at barrier 2 instead.
#include "check.cuh"

__device__ __forceinline__ void barrier_of(int id) {
  asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory");  // @barrier
}

__global__ void named_barrier(int* out) {
  if (threadIdx.x < 96) {
    barrier_of(1);  // @consumers
  } else {
    barrier_of(2);  // @producer
  }
  out[threadIdx.x] = 1;
}

int main() {
  named_barrier<<<1, 128>>>(zeroed<int>(128));
  return finish();
}
