// Ten kernels, each with one slow line, marked `planted`: planted NAME MILLISECONDS launches one of them that
// long.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace {

constexpr int kFloats = 1 << 25;
constexpr int kThreads = 256, kBlocks = 1056;

__device__ __forceinline__ int scattered(int i, int round, int n) {
  return static_cast<int>((static_cast<long long>(i) * 1031 + round * 7919LL) & (n - 1));
}

__global__ void uncoalesced(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int round = 0; round < 16; ++round) {
    sum += in[scattered(i, round, n)];  // planted
  }
  out[i] = sum;
}

__global__ void bank_conflict(const float* in, float* out, int n) {
  __shared__ volatile float tile[32 * 32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = threadIdx.x; k < 32 * 32; k += blockDim.x) tile[k] = in[(i + k) & (n - 1)];
  __syncthreads();
  float sum = 0;
  for (int round = 0; round < 256; ++round) {
    sum += tile[((threadIdx.x & 31) * 32 + round) & 1023];  // planted
  }
  out[i] = sum;
}

__global__ void long_scoreboard(const int* next, float* out, int hops) {
  int at = (blockIdx.x * blockDim.x + threadIdx.x) * 97;
  for (int hop = 0; hop < hops; ++hop) {
    at = next[at];  // planted
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<float>(at);
}

__global__ void barrier_imbalance(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = in[i & (n - 1)];
  for (int round = 0; round < 8; ++round) {
    if (threadIdx.x < 32) {
      for (int k = 0; k < 512; ++k) sum = sum * 1.0001f + 0.5f;
    }
    __syncthreads();  // planted
  }
  out[i] = sum;
}

__global__ void spill(const float* in, float* out, int n, int pick) {
  float kept[96];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < 96; ++k) kept[k] = in[(i + k * 32) & (n - 1)];
  float sum = 0;
  for (int round = 0; round < 64; ++round) {
    const int at = (pick + round * 37) % 96;
    sum += kept[at];  // planted
    kept[(at + 11) % 96] = sum;
  }
  out[i] = sum;
}

__global__ void division(const int* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  long long value = 0x7fffffffffffll + i;
  long long sum = 0;
  const long long divisor = in[i & (n - 1)] | 3;
  for (int round = 0; round < 64; ++round) {
    sum += (value + round) / (divisor + round);  // planted
  }
  out[i] = static_cast<float>(sum);
}

__global__ void divergent_branch(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = in[i & (n - 1)];
  for (int lane = 0; lane < 32; ++lane) {
    if ((threadIdx.x & 31) == lane) {
      for (int k = 0; k < 32; ++k) sum = sum * 1.0001f + static_cast<float>(lane);  // planted
    }
  }
  out[i] = sum;
}

__global__ void low_occupancy(const float* in, float* out, int n, int rounds) {
  extern __shared__ float room[];  // so much that one small block fills a multiprocessor
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  room[threadIdx.x] = in[i & (n - 1)];
  float sum = 0;
  for (int round = 0; round < rounds; ++round) {
    sum += in[(i + round * 4096 + static_cast<int>(sum * 1e-30f)) & (n - 1)];  // planted
  }
  out[i] = sum + room[threadIdx.x];
}

__global__ void tail(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = in[i & (n - 1)];
  const int rounds = blockIdx.x == gridDim.x - 1 ? 200000 : 2000;
  for (int k = 0; k < rounds; ++k) {
    sum = sum * 1.0001f + 0.5f;  // planted
  }
  out[i] = sum;
}

__device__ __forceinline__ void add_to(int* counter, int value) {
  atomicAdd(counter, value);  // planted
}

__global__ void serial_atomics(const int* in, int* counters, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int round = 0; round < 4; ++round)
    add_to(counters + (threadIdx.x & 31) * 0 + (in[i & (n - 1)] & 0), round + i);
  out[i] = 1;
}

void check(cudaError_t result) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "planted: %s\n", cudaGetErrorString(result));
  exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  float *in = nullptr, *out = nullptr;
  int *numbers = nullptr, *counters = nullptr;
  check(cudaMalloc(&in, kFloats * sizeof(float)));
  check(cudaMalloc(&out, kFloats * sizeof(float)));
  check(cudaMalloc(&numbers, kFloats * sizeof(int)));
  check(cudaMalloc(&counters, 4096));
  check(cudaMemset(in, 0, kFloats * sizeof(float)));
  int* host = static_cast<int*>(malloc(kFloats * sizeof(int)));
  for (int i = 0; i < kFloats; ++i) host[i] = static_cast<int>((i * 40503LL + 12345) & (kFloats - 1));
  check(cudaMemcpy(numbers, host, kFloats * sizeof(int), cudaMemcpyHostToDevice));
  constexpr int kRoom = 200 << 10;
  check(cudaFuncSetAttribute(low_occupancy, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom));
  const struct {
    const char* name;
    std::function<void()> launch;
  } kernels[] = {
      {"uncoalesced", [&] { uncoalesced<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"bank_conflict", [&] { bank_conflict<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"long_scoreboard", [&] { long_scoreboard<<<132, 128>>>(numbers, out, 256); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"spill", [&] { spill<<<kBlocks, kThreads>>>(in, out, kFloats, argc); }},
      {"division", [&] { division<<<kBlocks, kThreads>>>(numbers, out, kFloats); }},
      {"divergent_branch", [&] { divergent_branch<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"low_occupancy", [&] { low_occupancy<<<132, 32, kRoom>>>(in, out, kFloats, 256); }},
      {"tail", [&] { tail<<<133, kThreads>>>(in, out, kFloats); }},
      {"serial_atomics", [&] { serial_atomics<<<kBlocks, kThreads>>>(numbers, counters, out, kFloats); }},
  };
  bool known = false;
  for (const auto& kernel : kernels) {
    if (strcmp(argv[1], kernel.name) != 0 && strcmp(argv[1], "all") != 0) continue;
    known = true;
    long launches = 0;
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(atol(argv[2]))) {
      for (int i = 0; i < 4; ++i, ++launches) kernel.launch();
      check(cudaDeviceSynchronize());
    }
    printf("%s: %ld launches\n", kernel.name, launches);
  }
  if (known) return 0;
  fprintf(stderr, "planted: there is no kernel %s\n", argv[1]);
  return 2;
}
