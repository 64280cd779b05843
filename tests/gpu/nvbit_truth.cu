// Kernels whose executions are known and that log the registers which they store (test_nvbit.py).
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                \
  if (cudaError_t error = (call); error != cudaSuccess) {          \
    fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
    return 1;                                                      \
  }

// Warp w of a block runs w + 3 rounds; in each the odd lanes store, and once all do.
__global__ void counted(volatile unsigned* out) {
  const unsigned rounds = threadIdx.x / 32 + 3, i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round)
    if (threadIdx.x % 2 != 0) out[i] = round;
  asm volatile("membar.gl;");
  out[i] = i;
}

// What each lane has in the registers of its only store: where to, and what.
__global__ void logged(unsigned* out, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = i * 2654435761u ^ seed;
  value ^= value >> 13;
  out[i] = value;
}

// Called from kernels: its instructions are recorded like theirs.
__noinline__ __device__ unsigned mixed(unsigned value) { return (value ^ value >> 7) * 0x85ebca6bu; }

__global__ void calls(unsigned* out) { out[threadIdx.x] = mixed(threadIdx.x) + mixed(threadIdx.x + 32); }

// Generic pointers into three memories.
__global__ void generic(float* out, int choice) {
  __shared__ float shared[64];
  float local[4] = {1, 2, 3, 4};
  shared[threadIdx.x] = threadIdx.x;
  float* const places[3] = {out, shared, local};
  float* volatile place = places[(choice + threadIdx.x / 16) % 3];
  place[threadIdx.x % 4] = 5;
  out[threadIdx.x] = local[threadIdx.x % 4] + shared[threadIdx.x];
}

__global__ void scaled(float* data, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= by;
}

int graphs(float* data) {
  cudaStream_t stream, others[3];
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t made;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  scaled<<<2, 64, 0, stream>>>(data, 100, 2);
  scaled<<<1, 64, 0, stream>>>(data, 50, 3);
  scaled<<<2, 64, 0, stream>>>(data + 2048, 70, 1);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  for (int i = 0; i < 3; ++i) {
    if (i == 2) scaled<<<3, 64, 0, stream>>>(data, 150, 1);
    CHECK(cudaGraphLaunch(made, stream));
  }
  for (auto& other : others) {
    CHECK(cudaStreamCreate(&other));
    scaled<<<4, 64, 0, other>>>(data + 1024, 200, 1);
  }
  CHECK(cudaDeviceSynchronize());
  float first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  printf("%.0f\n", first);
  return 0;
}

int main(int argc, char** argv) {
  unsigned* out = nullptr;
  CHECK(cudaMalloc(&out, 1 << 16));
  if (argc > 1) {
    std::vector<float> ones(4096, 1);
    CHECK(cudaMemcpy(out, ones.data(), ones.size() * 4, cudaMemcpyHostToDevice));
    return graphs(reinterpret_cast<float*>(out));
  }
  counted<<<2, 96>>>(out);
  generic<<<1, 48>>>(reinterpret_cast<float*>(out), 0);
  calls<<<1, 32>>>(out);
  logged<<<3, 80>>>(out, 12345);
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> values(240);
  CHECK(cudaMemcpy(values.data(), out, values.size() * 4, cudaMemcpyDeviceToHost));
  printf("{\"out\": %llu, \"values\": [", (unsigned long long)out);
  for (size_t i = 0; i < values.size(); ++i) printf("%s%u", i != 0 ? "," : "", values[i]);
  printf("]}\n");
  return 0;
}
