// out = 2 * (a + b) + 1 and target = out + 1, where the addresses of a and b lie in memory and target's in a
// variable; once with out from cudaMalloc, once from a pool. tests/golden/capsules/add.capsule is its first
// launch.
#include <cuda_runtime.h>
#include <cstdio>

__device__ float scale = 2.0f;
static __constant__ int limits[4] = {1, 2, 3, 4};
__device__ float* target;

__global__ void add_listed(float* const* list, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  out[i] = scale * (list[0][i] + list[1][i]) + limits[0];
  target[i] = out[i] + 1;
}

int main() {
  constexpr int kCount = 1000;
  constexpr size_t kBytes = kCount * sizeof(float);
  float *a, *b, *out, *more, *pool, **list, values[kCount];
  for (int i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
  for (float** block : {&a, &b, &out, &more}) cudaMalloc(block, kBytes);
  cudaMalloc(&list, 64);
  for (float* block : {a, b}) cudaMemcpy(block, values, kBytes, cudaMemcpyHostToDevice);
  float* addresses[] = {a, b};
  cudaMemcpy(list, addresses, sizeof addresses, cudaMemcpyHostToDevice);
  cudaMemcpyToSymbol(target, &more, sizeof more);
  cudaMallocAsync(&pool, kBytes, nullptr);
  add_listed<<<8, 128>>>(list, out, kCount);
  add_listed<<<8, 128>>>(list, pool, kCount);
  return cudaDeviceSynchronize();
}
