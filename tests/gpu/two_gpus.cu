// Two GPUs at work at once, each in a thread of its own: `first` on one, `second` on the other, and copies of
// 64 MiB between them. two_gpus ROUNDS
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(call)                                                  \
  do {                                                               \
    const cudaError_t error = (call);                                \
    if (error != cudaSuccess) {                                      \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
      exit(1);                                                       \
    }                                                                \
  } while (0)

constexpr int kBlocks = 64, kThreads = 128, kTrips = 100000;
constexpr size_t kBytes = 64 << 20;

// FFMA: once per trip.
__global__ void first(float* out) {
  float value = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < kTrips; ++i) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(value));  // first
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// POPC: once per trip.
__global__ void second(float* out) {
  unsigned value = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < kTrips; ++i) asm volatile("popc.b32 %0, %0;" : "+r"(value));  // second
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 10;
  char* memory[2];
  for (int device = 0; device < 2; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&memory[device], kBytes));
    int can = 0;
    CHECK(cudaDeviceCanAccessPeer(&can, device, 1 - device));
    if (can) CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
  }
  auto work = [&](int device) {
    CHECK(cudaSetDevice(device));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < rounds; ++i) {
      (device == 0 ? first
                   : second)<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<float*>(memory[device]));
      if (device == 0) CHECK(cudaMemcpyPeerAsync(memory[1], 1, memory[0], 0, kBytes, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  puts("done");
}
