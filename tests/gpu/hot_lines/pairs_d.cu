// Ten more kernels with one slow line each, recorded after estimates were finished, and their repairs; see
// pairs.h.
#include "pairs.h"

namespace {

constexpr int kMask = kFloats - 1;

// One of four interleaved channels, filtered; the repair has the channels apart.
template <int kStride>
__device__ __forceinline__ void channel(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
  for (int k = 0; k < rounds; ++k) {
    sum = sum * 0.999f + in[static_cast<size_t>(i + k * threads) * kStride];  // planted
  }
  out[i] = sum;
}
__global__ void uncoalesced(const float* in, float* out, int rounds) { channel<4>(in, out, rounds); }
__global__ void uncoalesced_repaired(const float* in, float* out, int rounds) { channel<1>(in, out, rounds); }
__global__ void pick(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[static_cast<size_t>(i) * 4];
}

// Sums along the columns of a tile of 32 rows, in which lanes are a row apart.
template <int kPitch>
__device__ __forceinline__ void columns(const float* in, float* out, int rounds) {
  __shared__ float tile[32 * kPitch];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  for (int k = warp; k < 32; k += 8)
    tile[k * kPitch + lane] = in[(blockIdx.x * 1024 + k * 32 + lane) & kMask];
  __syncthreads();
  float sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float one = tile[lane * kPitch + ((warp * 4 + k + round) & 31)];  // planted
      sum = sum * 0.99f + one * one + one;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void bank_conflict(const float* in, float* out, int rounds) { columns<32>(in, out, rounds); }
__global__ void bank_conflict_repaired(const float* in, float* out, int rounds) {
  columns<33>(in, out, rounds);
}

// Sums of a stream in few threads, value by value or eight at a time.
template <int kUnroll>
__device__ __forceinline__ void stream(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll kUnroll
  for (int k = 0; k < rounds; ++k) {
    sum += sqrtf(in[(i + k * threads) & kMask]);  // planted
  }
  out[i] = sum;
}
__global__ void long_scoreboard(const float* in, float* out, int rounds) { stream<1>(in, out, rounds); }
__global__ void long_scoreboard_repaired(const float* in, float* out, int rounds) {
  stream<2>(in, out, rounds);
}

// Odd warps have three times the work of even ones, or all have the same.
template <bool kEven>
__device__ __forceinline__ void shares(const float* in, float* out) {
  __shared__ float row[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int turns = kEven ? 64 : threadIdx.x / 32 % 2 ? 96 : 32;
  float value = in[i & kMask];
#pragma unroll 1
  for (int step = 0; step < 24; ++step) {
    for (int k = 0; k < turns; ++k) value = value * 0.99f + 0.004f;
    row[threadIdx.x] = value;
    __syncthreads();  // planted
    value = value * 0.5f + row[255 - threadIdx.x] * 0.5f;
    __syncthreads();
  }
  out[i] = value * 0.0f + 1.0f;
}
__global__ void barrier_imbalance(const float* in, float* out) { shares<false>(in, out); }
__global__ void barrier_imbalance_repaired(const float* in, float* out) { shares<true>(in, out); }

// A stack of eight values that is indexed at run time: in local memory, or in shared memory.
__global__ void spill(const int* numbers, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int stack[8] = {};
  unsigned state = static_cast<unsigned>(numbers[i & kMask]);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    state = state * 1664525u + 1013904223u;
    stack[state >> 29] += round;  // planted
  }
  int sum = 0;
  for (int k = 0; k < 8; ++k) sum += stack[k] * (k + 1);
  out[i] = static_cast<float>(sum & 0xffff);
}
__global__ void spill_repaired(const int* numbers, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int stack[8] = {};
  unsigned state = static_cast<unsigned>(numbers[i & kMask]);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    state = state * 1664525u + 1013904223u;
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) stack[k] += state >> 29 == k ? round : 0;
  }
  int sum = 0;
  for (int k = 0; k < 8; ++k) sum += stack[k] * (k + 1);
  out[i] = static_cast<float>(sum & 0xffff);
}

// A division among much other arithmetic.
template <bool kFast>
__device__ __forceinline__ void divide(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float by = in[i & kMask] + 1.5f;
  float value = by;
#pragma unroll 1
  for (int k = 0; k < 64; ++k) {
#pragma unroll
    for (int other = 0; other < 40; ++other) value = value * 0.99f + 0.02f;
    value = kFast ? __fdividef(value, by) : value / by;  // planted
    value += 1.0f;
  }
  out[i] = value;
}
__global__ void division(const float* in, float* out) { divide<false>(in, out); }
__global__ void division_repaired(const float* in, float* out) { divide<true>(in, out); }

// Lanes iterate as often as their number says; numbers come in any order, or sorted.
__global__ void divergent_branch(const int* numbers, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int turns = numbers[i] & 511;
  float value = 1;
  for (int k = 0; k < turns; ++k) {
    value = value * 0.99f + 0.01f * value * value;  // planted
  }
  atomicAdd(out + (i & 1023), value);
}

// Threads in plenty, but so few in a block's place that a multiprocessor has eight warps, or sixteen.
__global__ void low_occupancy(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    sum = sum * 0.9f + in[(i + k * threads) & 0xfffff];  // planted
    sum = sum * 0.99f + 0.01f * sqrtf(sum);
  }
  atomicAdd(out + (i & 1023), (sum * 0.0f + 1.0f) * rounds);
}

// Blocks of the first eighth have four times the work of the others, or all have the same.
__global__ void tail(const float* in, float* out, int rounds, bool even) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int turns = even ? rounds * 11 : blockIdx.x < gridDim.x / 8 ? rounds * 32 : rounds * 8;
  float value = in[i & kMask];
  for (int k = 0; k < turns; ++k) {
    value = value * 0.999f + 0.0005f;  // planted
  }
  out[i] = value * 0.0f + 1.0f;
}

// Sums of a block in one word of shared memory: by every lane, or by the first of each warp.
__global__ void serial_atomics(const int* numbers, int* counters, int rounds) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  unsigned state = static_cast<unsigned>(numbers[blockIdx.x * blockDim.x + threadIdx.x]);
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    state = state * 1664525u + 1013904223u;
    atomicMax(&sum, static_cast<int>(state >> 4));  // planted
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(counters, sum);
}
__global__ void serial_atomics_repaired(const int* numbers, int* counters, int rounds) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  unsigned state = static_cast<unsigned>(numbers[blockIdx.x * blockDim.x + threadIdx.x]);
  int most = 0;
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    state = state * 1664525u + 1013904223u;
    most = max(most, static_cast<int>(state >> 4));
  }
  atomicMax(&sum, most);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(counters, sum);
}

}  // namespace

int main(int argc, char** argv) {
  const Arrays a = filled();
  float* picked = nullptr;
  int* sorted = nullptr;
  constexpr int kBranches = 8448 * 256;
  check(cudaMalloc(&picked, kFloats / 4 * sizeof(float)));
  check(cudaMalloc(&sorted, kBranches * sizeof(int)));
  pick<<<kFloats / 4 / 256, 256>>>(a.in, picked);
  std::vector<int> numbers(kBranches);
  check(cudaMemcpy(numbers.data(), a.numbers, kBranches * sizeof(int), cudaMemcpyDeviceToHost));
  for (int k = 0; k < kBranches; k += 256)
    std::sort(numbers.begin() + k, numbers.begin() + k + 256,
              [](int one, int other) { return (one & 511) < (other & 511); });
  check(cudaMemcpy(sorted, numbers.data(), kBranches * sizeof(int), cudaMemcpyHostToDevice));
  const std::vector<Pair> pairs = {
      {"uncoalesced", [&] { uncoalesced<<<1024, 256>>>(a.in, a.out, 16); },
       [&] { uncoalesced_repaired<<<1024, 256>>>(picked, a.out, 16); }},
      {"bank_conflict", [&] { bank_conflict<<<2112, 256>>>(a.in, a.out, 96); },
       [&] { bank_conflict_repaired<<<2112, 256>>>(a.in, a.out, 96); }},
      {"long_scoreboard", [&] { long_scoreboard<<<264, 128>>>(a.in, a.out, 480); },
       [&] { long_scoreboard_repaired<<<264, 128>>>(a.in, a.out, 480); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<4224, 256>>>(a.in, a.out); },
       [&] { barrier_imbalance_repaired<<<4224, 256>>>(a.in, a.out); }},
      {"spill", [&] { spill<<<2112, 256>>>(a.numbers, a.out, 256); },
       [&] { spill_repaired<<<2112, 256>>>(a.numbers, a.out, 256); }},
      {"division", [&] { division<<<4224, 256>>>(a.in, a.out); },
       [&] { division_repaired<<<4224, 256>>>(a.in, a.out); }},
      {"divergent_branch", [&] { divergent_branch<<<8448, 256>>>(a.numbers, a.out); },
       [&] { divergent_branch<<<8448, 256>>>(sorted, a.out); }},
      {"low_occupancy", [&] { low_occupancy<<<132, 256>>>(a.in, a.out, 512); },
       [&] { low_occupancy<<<264, 256>>>(a.in, a.out, 256); }},
      {"tail", [&] { tail<<<1056, 256>>>(a.in, a.out, 256, false); },
       [&] { tail<<<1056, 256>>>(a.in, a.out, 256, true); }},
      {"serial_atomics", [&] { serial_atomics<<<1056, 256>>>(a.numbers, a.bins, 128); },
       [&] { serial_atomics_repaired<<<1056, 256>>>(a.numbers, a.bins, 128); }},
  };
  return run_pairs(argc, argv, a, pairs);
}
