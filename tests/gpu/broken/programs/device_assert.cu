// An assertion fails in thread 40 of block 1.
#include <cassert>
#include "check.cuh"

__device__ __forceinline__ int checked(const int* values, int i, int limit) {
  assert(i < limit);  // @assert
  return values[i];
}

__global__ void device_assert(const int* values, int* out, int limit) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = checked(values, i, limit);  // @kernel
}

int main() {
  device_assert<<<2, 64>>>(zeroed<int>(128), zeroed<int>(128), 104);
  return finish();
}
