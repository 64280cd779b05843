// A barrier of the whole block in a branch that only a part of each warp takes.
#include "check.cuh"

__device__ __forceinline__ void meet() {
  __syncthreads();  // @barrier
}

__global__ void divergent_barrier(int* out) {
  if (threadIdx.x % 32 < 20) meet();  // @kernel
  out[threadIdx.x] = 1;
}

int main() {
  divergent_barrier<<<1, 64>>>(zeroed<int>(64));
  return finish();
}
