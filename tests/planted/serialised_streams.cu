// Four streams with independent kernels that could run side by side, and a tiny kernel on the legacy default
// stream between them, which waits for all of them and makes all of them wait.
#include <cuda_runtime.h>
#include <cstdio>

__global__ void solve(float* x, int rounds) {
  float value = x[threadIdx.x];
  for (int i = 0; i < rounds; ++i) value = value * 1.000001f + 0.5f;
  x[threadIdx.x] = value;
}

__global__ void count(int* steps) { *steps += 1; }

int main() {
  constexpr int kStreams = 4, kRounds = 60;
  cudaStream_t streams[kStreams];
  float* data = nullptr;
  int* steps = nullptr;
  cudaMalloc(&data, kStreams * 4 * 256 * sizeof(float));
  cudaMalloc(&steps, sizeof(int));
  cudaMemset(data, 0, kStreams * 4 * 256 * sizeof(float));
  cudaMemset(steps, 0, sizeof(int));
  for (auto& stream : streams) cudaStreamCreate(&stream);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kStreams; ++i) {
      solve<<<4, 256, 0, streams[i]>>>(data + i * 4 * 256, 100000);
      count<<<1, 1>>>(steps);  // planted
    }
  }
  const cudaError_t result = cudaDeviceSynchronize();
  if (result != cudaSuccess) std::fprintf(stderr, "%s\n", cudaGetErrorString(result));
  return result == cudaSuccess ? 0 : 1;
}
