// The planted kernels beside twins that follow the advice of `sass why` with the same total work: prints
// microseconds of both.
#define main planted_main
#include "planted.cu"
#undef main

namespace {

__global__ void coalesced(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int round = 0; round < 16; ++round) sum += in[(i + round * 7919) & (n - 1)];
  out[i] = sum;
}

__global__ void padded(const float* in, float* out, int n) {
  __shared__ volatile float tile[32 * 33];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = threadIdx.x; k < 32 * 32; k += blockDim.x) tile[k] = in[(i + k) & (n - 1)];
  __syncthreads();
  float sum = 0;
  for (int round = 0; round < 256; ++round) sum += tile[((threadIdx.x & 31) * 33 + round) & 1023];
  out[i] = sum;
}

__global__ void balanced(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = in[i & (n - 1)];
  for (int round = 0; round < 8; ++round) {
    for (int k = 0; k < 512 * 32 / kThreads; ++k) sum = sum * 1.0001f + 0.5f;
    __syncthreads();
  }
  out[i] = sum;
}

__global__ void in_registers(const float* in, float* out, int n) {
  float kept[96];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 96; ++k) kept[k] = in[(i + k * 32) & (n - 1)];
  float sum = 0;
#pragma unroll
  for (int round = 0; round < 64; ++round) {
    const int at = (3 + round * 37) % 96;
    sum += kept[at];
    kept[(at + 11) % 96] = sum;
  }
  out[i] = sum;
}

__global__ void narrow_division(const int* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned value = 0x7fffffffu - i, divisor = in[i & (n - 1)] | 3;
  unsigned long long sum = 0;
  for (int round = 0; round < 64; ++round) sum += (value + round) / (divisor + round);
  out[i] = static_cast<float>(sum);
}

__global__ void together(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = in[i & (n - 1)];
  const float lane = static_cast<float>(threadIdx.x & 31);
  for (int k = 0; k < 32; ++k) sum = sum * 1.0001f + lane;
  out[i] = sum;
}

__global__ void even_blocks(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = in[i & (n - 1)];
  const int rounds = (132 * 2000 + 200000) / 133;
  for (int k = 0; k < rounds; ++k) sum = sum * 1.0001f + 0.5f;
  out[i] = sum;
}

__global__ void added_up_first(const int* in, int* counters, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i & (n - 1)];
  for (int round = 0; round < 4; ++round) {
    __shared__ int block;
    if (threadIdx.x == 0) block = 0;
    __syncthreads();
    const int warp = __reduce_add_sync(~0u, value + 1);
    if ((threadIdx.x & 31) == 0) atomicAdd(&block, warp);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(counters, block);
    value += block & 7;
    __syncthreads();
  }
  out[i] = static_cast<float>(value);
}

float microseconds(const std::function<void()>& launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 20; ++i) launch();
  constexpr int kTimes = 200;
  check(cudaEventRecord(begin));
  for (int i = 0; i < kTimes; ++i) launch();
  check(cudaEventRecord(end));
  check(cudaDeviceSynchronize());
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds * 1000 / kTimes;
}

}  // namespace

int main() {
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
    std::function<void()> before, after;
  } pairs[] = {
      {"uncoalesced", [&] { uncoalesced<<<kBlocks, kThreads>>>(in, out, kFloats); },
       [&] { coalesced<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"bank_conflict", [&] { bank_conflict<<<kBlocks, kThreads>>>(in, out, kFloats); },
       [&] { padded<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"long_scoreboard", [&] { long_scoreboard<<<132, 128>>>(numbers, out, 256); },
       [&] { long_scoreboard<<<132, 256>>>(numbers, out, 128); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<kBlocks, kThreads>>>(in, out, kFloats); },
       [&] { balanced<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"spill", [&] { spill<<<kBlocks, kThreads>>>(in, out, kFloats, 3); },
       [&] { in_registers<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"division", [&] { division<<<kBlocks, kThreads>>>(numbers, out, kFloats); },
       [&] { narrow_division<<<kBlocks, kThreads>>>(numbers, out, kFloats); }},
      {"divergent_branch", [&] { divergent_branch<<<kBlocks, kThreads>>>(in, out, kFloats); },
       [&] { together<<<kBlocks, kThreads>>>(in, out, kFloats); }},
      {"low_occupancy", [&] { low_occupancy<<<132, 32, kRoom>>>(in, out, kFloats, 256); },
       [&] { low_occupancy<<<132, 128, kRoom>>>(in, out, kFloats, 64); }},
      {"tail", [&] { tail<<<133, kThreads>>>(in, out, kFloats); },
       [&] { even_blocks<<<133, kThreads>>>(in, out, kFloats); }},
      {"serial_atomics", [&] { serial_atomics<<<kBlocks, kThreads>>>(numbers, counters, out, kFloats); },
       [&] { added_up_first<<<kBlocks, kThreads>>>(numbers, counters, out, kFloats); }},
  };
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto& pair : pairs) {
      const float before = microseconds(pair.before), after = microseconds(pair.after);
      printf("%s %.2f %.2f %.3f\n", pair.name, before, after, before / after);
    }
  }
  return 0;
}
