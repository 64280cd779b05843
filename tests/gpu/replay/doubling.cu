// Five launches of one kernel, each from one array to the other: element i of the input of launch n (from 0)
// is 2^n * i + 2^n - 1, and of its output 2^(n + 1) * i + 2^(n + 1) - 1.
#include <cuda_runtime.h>

#include <utility>

__global__ void doubled(const float* in, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 2 * in[i] + 1;
}

int main() {
  constexpr int kCount = 1000;
  float *in, *out, values[kCount];
  for (int i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
  cudaMalloc(&in, sizeof values);
  cudaMalloc(&out, sizeof values);
  cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice);
  for (int n = 0; n < 5; ++n) {
    doubled<<<8, 128>>>(in, out, kCount);
    std::swap(in, out);
  }
  return cudaDeviceSynchronize();
}
