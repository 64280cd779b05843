// How long `capsule record` holds a program, beside the time that its copies would take to pinned memory:
// `capsule_hold MIB` prints the pinned device-to-host bandwidth in bytes per ns, then launches a kernel that
// reaches MIB of memory three times and prints the ns of each, after some seconds, as programs that are cut
// into run for a while before. capsule_hold.py runs it.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

constexpr int kBlocks = 8;

__global__ void touch(float** blocks, size_t count) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    blocks[blockIdx.y][i] += 1;
}

double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int main(int, char** argv) {
  const size_t bytes = strtoull(argv[1], nullptr, 10) << 20, piece = bytes / kBlocks;
  float *blocks[kBlocks], **list;
  for (float*& block : blocks) {
    if (cudaMalloc(&block, piece) != cudaSuccess) return 1;
    cudaMemset(block, 0, piece);
  }
  cudaMalloc(&list, sizeof blocks);
  cudaMemcpy(list, blocks, sizeof blocks, cudaMemcpyHostToDevice);
  const size_t most = std::min<size_t>(piece, 256u << 20);
  void* pinned = nullptr;
  cudaMallocHost(&pinned, most);
  cudaMemcpy(pinned, blocks[0], most, cudaMemcpyDeviceToHost);
  const double begin = now();
  for (int i = 0; i < 5; ++i) cudaMemcpy(pinned, blocks[i], most, cudaMemcpyDeviceToHost);
  printf("%f\n", 5 * static_cast<double>(most) / (now() - begin));
  fflush(stdout);
  cudaFreeHost(pinned);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (int i = 0; i < 3; ++i) {
    const double launched = now();
    touch<<<dim3(128, kBlocks), 256>>>(list, piece / sizeof(float));
    cudaDeviceSynchronize();
    printf("%f\n", now() - launched);
  }
  return cudaGetLastError() != cudaSuccess;
}
