// A step of two independent chains of small kernels in one stream, and copies within the device; in the NVTX
// range "cut".
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

constexpr int kRounds = 40, kBlocks = 48, kCount = 1 << 20;

__device__ void work(float* values, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = values[i];
  for (int round = 0; round < rounds; ++round) value = value * 1.0001f + 0.5f;
  values[i] = value;
}
__global__ void left_chain(float* values) { work(values, 6000); }
__global__ void right_chain(float* values) { work(values, 6000); }
__global__ void tiny(float* values) { work(values, 1); }

int main() {
  float *left, *right, *from, *to, *small;
  for (float** block : {&left, &right, &from, &to, &small}) {
    cudaMalloc(block, kCount * sizeof(float) * 16);
    cudaMemset(*block, 0, kCount * sizeof(float) * 16);
  }
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (int pass = 0; pass < 2; ++pass) {
    if (pass) nvtxRangePushA("cut");
    for (int i = 0; i < kRounds; ++i) {
      left_chain<<<kBlocks, 128, 0, stream>>>(left);
      right_chain<<<kBlocks, 128, 0, stream>>>(right);
      if (i % 10 == 0)
        cudaMemcpyAsync(to, from, kCount * sizeof(float) * 16, cudaMemcpyDeviceToDevice, stream);
    }
    for (int i = 0; i < 60; ++i) tiny<<<1, 32, 0, stream>>>(small);
    cudaStreamSynchronize(stream);
    if (pass) nvtxRangePop();
  }
  return cudaDeviceSynchronize() != cudaSuccess;
}
