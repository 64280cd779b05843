// Block 5 adds through an unchecked index (a load first: the fault of a last store can go unnoticed), three calls deep.
#include "check.cuh"

template <class T>
__device__ __forceinline__ void store(T* base, long index, T value) {
  base[index] += value;  // @store
}

template <class T>
__device__ __forceinline__ void scatter(T* base, const long* indices, int i) {
  store(base, indices[i], T(i));  // @scatter
}

__global__ void illegal_address(float* out, const long* indices) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  scatter(out, indices, i);  // @kernel
}

int main() {
  long* indices = zeroed<long>(8 * 32);
  long bad = 1l << 40;
  check(cudaMemcpy(indices + 5 * 32 + 7, &bad, sizeof bad, cudaMemcpyHostToDevice), "cudaMemcpy");
  illegal_address<<<8, 32>>>(zeroed<float>(8 * 32), indices);
  return finish();
}
