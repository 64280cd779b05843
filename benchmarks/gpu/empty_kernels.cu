// A loop of empty kernels: what one launch costs. Prints one JSON line: nanoseconds per launch, enqueue and
// total, per repetition. Usage: empty_kernels [launches] [repetitions]
#include <chrono>
#include <cstdio>
#include <cstdlib>

__global__ void empty(float* out, int i) {
  if (out != nullptr) out[threadIdx.x] += i;
}

static double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 200000;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 3;
  float* data = nullptr;
  if (cudaMalloc(&data, 4096) != cudaSuccess) return 1;
  empty<<<1, 32>>>(data, 0);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  std::printf("{\"launches\": %d, \"total_ns\": [", launches);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) empty<<<4, 128>>>(data, i);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("%s%.1f", repetition ? ", " : "", seconds_since(start) / launches * 1e9);
  }
  std::printf("]}\n");
  return cudaFree(data) == cudaSuccess ? 0 : 1;
}
