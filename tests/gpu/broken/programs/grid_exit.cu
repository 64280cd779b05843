// A barrier of the whole grid, polled with an atomic; block (5,1) has nothing to do and returns without it.
#include "check.cuh"

__device__ __forceinline__ void meet(unsigned* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) != gridDim.x * gridDim.y) {}  // @spin
  }
  __syncthreads();  // @others
}

__global__ void grid_exit(unsigned* arrived, int* out) {
  if (blockIdx.x == 5 && blockIdx.y == 1) return;
  meet(arrived);  // @meet
  out[threadIdx.x] = 1;
}

int main() {
  grid_exit<<<dim3(8, 4), 64>>>(zeroed<unsigned>(1), zeroed<int>(64));
  return finish();
}
