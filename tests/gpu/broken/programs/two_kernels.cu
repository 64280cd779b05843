// Two kernels on two streams wait for each other's flag, each before it sets its own.
#include "check.cuh"

__device__ __forceinline__ void wait_for(const volatile int* flag) {
  while (*flag == 0) {}  // @spin
}

__global__ void left_kernel(const int* mine, int* other) {
  wait_for(mine);  // @left
  atomicExch(other, 1);
}

__global__ void right_kernel(const int* mine, int* other) {
  wait_for(mine);  // @right
  atomicExch(other, 1);
}

int main() {
  int* flags = zeroed<int>(2);
  cudaFuncAttributes attributes;  // load both before either runs: loading code waits for running kernels
  check(cudaFuncGetAttributes(&attributes, left_kernel), "load");
  check(cudaFuncGetAttributes(&attributes, right_kernel), "load");
  cudaStream_t streams[2];
  for (auto& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  left_kernel<<<1, 32, 0, streams[0]>>>(flags, flags + 1);
  right_kernel<<<1, 32, 0, streams[1]>>>(flags + 1, flags);
  return finish();
}
