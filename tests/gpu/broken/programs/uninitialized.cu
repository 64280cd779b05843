// A kernel sums memory that nobody wrote.
#include "check.cuh"

__device__ __forceinline__ int load(const int* values, int i) {
  return values[i];  // @load
}

__global__ void uninitialized(const int* values, int* out) {
  atomicAdd(out, load(values, threadIdx.x));  // @kernel
}

int main() {
  int* values;
  check(cudaMalloc(&values, 128), "cudaMalloc");
  uninitialized<<<1, 32>>>(values, zeroed<int>(1));
  return finish();
}
