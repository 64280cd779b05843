// Kernels before, inside and after ranges of the program's own, the last of a range still running at its end.
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <cstdlib>

__global__ void before(int* out) {
  if (out != nullptr) *out = 1;
}
__global__ void inside(long long cycles) {
  const long long began = clock64();
  while (clock64() - began < cycles) {
  }
}
__global__ void after(int* out) {
  if (out != nullptr) *out = 1;
}

int main(int argc, char** argv) {
  const int ranges = argc > 1 ? atoi(argv[1]) : 1, kernels = argc > 2 ? atoi(argv[2]) : 100;
  const bool waits = argc > 3;
  for (int i = 0; i < 500; ++i) before<<<1, 32>>>(nullptr);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  for (int range = 0; range < ranges; ++range) {
    cudaProfilerStart();
    for (int i = 0; i < kernels; ++i) inside<<<1, 32>>>(20000);
    if (waits) cudaDeviceSynchronize();
    cudaProfilerStop();
    for (int i = 0; i < 500; ++i) after<<<1, 32>>>(nullptr);
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
