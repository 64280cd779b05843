// Ten more kernels with one slow line each, all of them longer than 50 microseconds, and their repairs; see
// pairs.h.
#include "pairs.h"

namespace {

constexpr int kMask = kFloats - 1;

// Sums of rows of 256 floats, a thread each; the repair reads the transposed matrix.
__global__ void uncoalesced(const float* in, float* out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 256; ++k) {
    sum = sum * 0.999f + in[static_cast<size_t>(row) * 256 + k];  // planted
  }
  out[row] = sum;
}
__global__ void uncoalesced_repaired(const float* in, float* out, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 256; ++k) sum = sum * 0.999f + in[static_cast<size_t>(k) * rows + row];
  out[row] = sum;
}
__global__ void transpose(const float* in, float* out, int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[static_cast<size_t>(i % 256) * rows + i / 256] = in[i];
}

// A histogram of 16 bins for each thread: side by side, or bin by bin.
template <bool kByBin>
__device__ __forceinline__ void count_bins(const int* numbers, float* out, int rounds) {
  __shared__ int bins[16 * 256];
  for (int k = 0; k < 16; ++k) bins[k * 256 + threadIdx.x] = 0;
  __syncthreads();
  unsigned state = static_cast<unsigned>(numbers[blockIdx.x * blockDim.x + threadIdx.x]);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    state = state * 1664525u + 1013904223u;
    const unsigned bin = state >> 28;
    bins[kByBin ? bin * 256 + threadIdx.x : threadIdx.x * 16 + bin] += round;  // planted
  }
  int sum = 0;
  for (int k = 0; k < 16; ++k) sum += (k + 1) * bins[kByBin ? k * 256 + threadIdx.x : threadIdx.x * 16 + k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<float>(sum & 0xffff);
}
__global__ void bank_conflict(const int* numbers, float* out, int rounds) {
  count_bins<false>(numbers, out, rounds);
}
__global__ void bank_conflict_repaired(const int* numbers, float* out, int rounds) {
  count_bins<true>(numbers, out, rounds);
}

// A gather through a table of 256 KiB, one value after the other, or four at a time.
template <int kUnroll>
__device__ __forceinline__ void gather(const float* in, const int* numbers, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll kUnroll
  for (int k = 0; k < rounds; ++k) {
    sum = sum * 0.999f + in[numbers[(i + k * threads) & kMask] & 0xffff];  // planted
  }
  out[i] = sum;
}
__global__ void long_scoreboard(const float* in, const int* numbers, float* out, int rounds) {
  gather<1>(in, numbers, out, rounds);
}
__global__ void long_scoreboard_repaired(const float* in, const int* numbers, float* out, int rounds) {
  gather<4>(in, numbers, out, rounds);
}

// Each step, warp 0 smooths 256 values for all; in the repair each thread smooths one.
__global__ void barrier_imbalance(const float* in, float* out) {
  __shared__ float row[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  row[threadIdx.x] = in[i & kMask];
  float sum = 0;
  for (int step = 0; step < 64; ++step) {
    __syncthreads();
    if (threadIdx.x < 32) {
      for (int k = threadIdx.x; k < 256; k += 32) row[k] = row[k] * 0.97f + 0.01f;
    }
    __syncthreads();  // planted
    for (int k = 0; k < 8; ++k) sum = sum * 0.99f + row[(threadIdx.x + k) & 255];
  }
  out[i] = sum;
}
__global__ void barrier_imbalance_repaired(const float* in, float* out) {
  __shared__ float row[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  row[threadIdx.x] = in[i & kMask];
  float sum = 0;
  for (int step = 0; step < 64; ++step) {
    __syncthreads();
    row[threadIdx.x] = row[threadIdx.x] * 0.97f + 0.01f;
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum = sum * 0.99f + row[(threadIdx.x + k) & 255];
  }
  out[i] = sum;
}

// 48 values that live through a loop: in 32 registers a thread, or in as many as it takes.
__device__ __forceinline__ float stir(const float* in, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float values[48];
#pragma unroll
  for (int k = 0; k < 48; ++k) values[k] = in[(i + k * 4096) & kMask];
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < 48; ++k) values[k] = values[k] * 0.5f + values[(k + 17) % 48];  // planted
#pragma unroll
    for (int k = 0; k < 48; ++k) values[k] *= 0.6f;
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 48; ++k) sum += values[k];
  return sum;
}
__global__ void __launch_bounds__(256, 8) spill(const float* in, float* out, int rounds) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = stir(in, rounds);
}
__global__ void __launch_bounds__(256, 2) spill_repaired(const float* in, float* out, int rounds) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = stir(in, rounds);
}

// Digits of numbers to a base that the compiler does not know; the repair multiplies by its reciprocal.
__global__ void division(const int* numbers, float* out, unsigned base) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = static_cast<unsigned>(numbers[i & kMask]), sum = 0;
  for (int k = 0; k < 64; ++k) {
    sum += value / base;  // planted
    value = (value * 5 + 12345) & 0xffffff;
  }
  out[i] = static_cast<float>(sum & 0xffff);
}
__global__ void division_repaired(const int* numbers, float* out, unsigned reciprocal) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = static_cast<unsigned>(numbers[i & kMask]), sum = 0;
  for (int k = 0; k < 64; ++k) {
    sum += __umulhi(value, reciprocal);
    value = (value * 5 + 12345) & 0xffffff;
  }
  out[i] = static_cast<float>(sum & 0xffff);
}

// Two recurrences, by the parity of the lane or of the warp.
__device__ __forceinline__ void two_ways(const float* in, float* out, bool first) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
#pragma unroll 1
  for (int round = 0; round < 32; ++round) {
    if (first) {
      for (int k = 0; k < 24; ++k) value = value * 0.98f + 0.015f;  // planted
    } else {
      for (int k = 0; k < 24; ++k) value = value * value * 0.3f + 0.1f;
    }
  }
  atomicAdd(out + (i & 1023), value * 0.0009765625f);
}
__global__ void divergent_branch(const float* in, float* out) { two_ways(in, out, (threadIdx.x & 1) != 0); }
// The same values go either way: each block has those of its odd numbers in its upper half.
__global__ void divergent_branch_repaired(const float* in, float* out) {
  two_ways(in, out, threadIdx.x >= 128);
}
__global__ void by_parity(const float* in, float* out) {
  const int first = blockIdx.x * 256, k = threadIdx.x;
  out[first + (k & 1) * 128 + k / 2] = in[first + k];
}

// Blocks that take much shared memory, of which they need little.
__global__ void low_occupancy(const float* in, float* out, int rounds) {
  extern __shared__ float own[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  own[threadIdx.x] = 0;
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    own[threadIdx.x] = own[threadIdx.x] * 0.99f + in[(i + k * threads) & kMask];  // planted
  }
  out[i] = own[threadIdx.x];
}

// Chains of dependent loads, in blocks that do not come out even.
__global__ void tail(const int* next, float* out, int hops, int values) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < values; i += gridDim.x * blockDim.x) {
    int at = i * 37 & kMask;
    for (int hop = 0; hop < hops; ++hop) {
      at = next[at & 0xfffff];  // planted
    }
    out[i] = static_cast<float>(at & 1023);
  }
}

// Every thread counts in 64 counters as it goes, or adds once for each.
__global__ void serial_atomics(const int* numbers, int* counters, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (int k = 0; k < rounds; ++k) {
    atomicAdd(counters + (k & 3), numbers[(i + k * threads) & kMask] & 7);  // planted
  }
}
__global__ void serial_atomics_repaired(const int* numbers, int* counters, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  int sums[4] = {};
#pragma unroll 4
  for (int k = 0; k < rounds; ++k) sums[k & 3] += numbers[(i + k * threads) & kMask] & 7;
  for (int k = 0; k < 4; ++k) atomicAdd(counters + k, sums[k]);
}

}  // namespace

int main(int argc, char** argv) {
  const Arrays a = filled();
  constexpr int kRows = kFloats / 256, kBranches = 4224 * 256;
  float *transposed = nullptr, *halves = nullptr;
  check(cudaMalloc(&transposed, kFloats * sizeof(float)));
  check(cudaMalloc(&halves, kBranches * sizeof(float)));
  transpose<<<kFloats / 256, 256>>>(a.in, transposed, kRows);
  by_parity<<<4224, 256>>>(a.in, halves);
  constexpr unsigned kBase = 7919, kReciprocal = static_cast<unsigned>((1ull << 32) / kBase + 1);
  constexpr int kMuch = 96 << 10, kLittle = 16 << 10, kOfTail = 450 * 512;
  check(cudaFuncSetAttribute(low_occupancy, cudaFuncAttributeMaxDynamicSharedMemorySize, kMuch));
  const std::vector<Pair> pairs = {
      {"uncoalesced", [&] { uncoalesced<<<kRows / 256, 256>>>(a.in, a.out); },
       [&] { uncoalesced_repaired<<<kRows / 256, 256>>>(transposed, a.out, kRows); }},
      {"bank_conflict", [&] { bank_conflict<<<2112, 256>>>(a.numbers, a.out, 512); },
       [&] { bank_conflict_repaired<<<2112, 256>>>(a.numbers, a.out, 512); }},
      {"long_scoreboard", [&] { long_scoreboard<<<264, 256>>>(a.in, a.numbers, a.out, 240); },
       [&] { long_scoreboard_repaired<<<264, 256>>>(a.in, a.numbers, a.out, 240); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<4224, 256>>>(a.in, a.out); },
       [&] { barrier_imbalance_repaired<<<4224, 256>>>(a.in, a.out); }},
      {"spill", [&] { spill<<<1056, 256>>>(a.in, a.out, 64); },
       [&] { spill_repaired<<<1056, 256>>>(a.in, a.out, 64); }},
      {"division", [&] { division<<<8448, 256>>>(a.numbers, a.out, kBase); },
       [&] { division_repaired<<<8448, 256>>>(a.numbers, a.out, kReciprocal); }},
      {"divergent_branch", [&] { divergent_branch<<<4224, 256>>>(a.in, a.out); },
       [&] { divergent_branch_repaired<<<4224, 256>>>(halves, a.out); }},
      {"low_occupancy", [&] { low_occupancy<<<1056, 64, kMuch>>>(a.in, a.out, 128); },
       [&] { low_occupancy<<<1056, 64, kLittle>>>(a.in, a.out, 128); }},
      {"tail", [&] { tail<<<450, 512>>>(a.numbers, a.out, 256, kOfTail); },
       [&] { tail<<<3600, 64>>>(a.numbers, a.out, 256, kOfTail); }},
      {"serial_atomics", [&] { serial_atomics<<<528, 256>>>(a.numbers, a.bins, 64); },
       [&] { serial_atomics_repaired<<<528, 256>>>(a.numbers, a.bins, 64); }},
  };
  return run_pairs(argc, argv, a, pairs);
}
