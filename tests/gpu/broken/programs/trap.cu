// A kernel that ends itself with a trap, as device code does that has no assert.
#include "check.cuh"

__device__ __forceinline__ void require(bool condition) {
  if (!condition) __trap();  // @trap
}

__global__ void trap(const int* values, int* out) {
  require(values[threadIdx.x] == 0 && blockIdx.x != 2);  // @kernel
  out[threadIdx.x] = 1;
}

int main() {
  trap<<<4, 32>>>(zeroed<int>(32), zeroed<int>(32));
  return finish();
}
