// Ten more kernels with one slow line each, of other mechanisms than those of a to d, recorded after
// estimates were finished, and their repairs; see pairs.h.
#include "pairs.h"

namespace {

constexpr int kMask = kFloats - 1, kSide = 2048;

// A transposition that stores columns: directly, or through a tile.
__global__ void uncoalesced(const float* in, float* out) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) {
    out[x * kSide + y + k] = in[(y + k) * kSide + x] * 2.0f;  // planted
  }
}
__global__ void uncoalesced_repaired(const float* in, float* out) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * kSide + x] * 2.0f;
  __syncthreads();
  const int to_x = blockIdx.y * 32 + threadIdx.x, to_y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) out[(to_y + k) * kSide + to_x] = tile[threadIdx.x][threadIdx.y + k];
}

// Products of complex numbers in shared memory: real and imaginary parts side by side with a stride of four
// words, or in arrays of their own.
template <int kStride>
__device__ __forceinline__ void rotate(const float* in, float* out, int rounds) {
  __shared__ float real[256 * kStride], imaginary[256 * kStride];
  const int i = blockIdx.x * 256 + threadIdx.x;
  real[threadIdx.x * kStride] = in[i & kMask];
  imaginary[threadIdx.x * kStride] = in[(i + 77) & kMask];
  __syncthreads();
  float a = 1.0f, b = 0.5f;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const int other = ((threadIdx.x + round) & 255) * kStride;
    const float c = real[other], d = imaginary[other];  // planted
#pragma unroll
    for (int k = 0; k < 6; ++k) {
      const float next = a * c - b * d;
      b = (a * d + b * c) * 0.5f + 0.1f;
      a = next * 0.5f + 0.1f;
    }
  }
  out[i] = a + b;
}
__global__ void bank_conflict(const float* in, float* out, int rounds) { rotate<4>(in, out, rounds); }
__global__ void bank_conflict_repaired(const float* in, float* out, int rounds) {
  rotate<1>(in, out, rounds);
}

// A filter over a window of 4 MiB, whose next value is loaded when it is needed, or one turn before.
template <bool kAhead>
__device__ __forceinline__ void filter(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float value = 0, next = kAhead ? in[i & 0xfffff] : 0;
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    const float one = kAhead ? next : in[(i + k * threads) & 0xfffff];
    if (kAhead) next = in[(i + (k + 1) * threads) & 0xfffff];
#pragma unroll
    for (int step = 0; step < 24; ++step) value = value * 0.9f + one;  // planted
  }
  out[i] = value;
}
__global__ void long_scoreboard(const float* in, float* out, int rounds) { filter<false>(in, out, rounds); }
__global__ void long_scoreboard_repaired(const float* in, float* out, int rounds) {
  filter<true>(in, out, rounds);
}

// A stencil whose border of 128 values one warp fetches for the block, or each of the first four its part.
template <bool kShared>
__device__ __forceinline__ void stencil(const float* in, float* out, int steps) {
  __shared__ float row[256 + 128];
  const int i = blockIdx.x * 256 + threadIdx.x;
  float value = in[i & kMask];
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    row[64 + threadIdx.x] = value;
    if (kShared) {
      if (threadIdx.x < 128)
        row[threadIdx.x + (threadIdx.x < 64 ? 0 : 256)] = in[(i + step * 4096) & 0xffff] * 0.5f;
    } else if (threadIdx.x < 32) {
#pragma unroll 1
      for (int k = 0; k < 128; k += 32)
        row[threadIdx.x + k + (k < 64 ? 0 : 256)] = in[(i + k + step * 4096) & 0xffff] * 0.5f;
    }
    __syncthreads();  // planted
#pragma unroll
    for (int k = 0; k < 64; ++k) value = value * 0.98f + row[64 + threadIdx.x - 32 + k] * 0.0003f;
    __syncthreads();
  }
  out[i] = value;
}
__global__ void barrier_imbalance(const float* in, float* out, int steps) { stencil<false>(in, out, steps); }
__global__ void barrier_imbalance_repaired(const float* in, float* out, int steps) {
  stencil<true>(in, out, steps);
}

// A tile of six by six sums a thread, in 32 registers or in as many as it takes.
__device__ __forceinline__ void outer_products(const float* in, float* out, int depth) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sums[6][6] = {};
#pragma unroll 1
  for (int k = 0; k < depth; ++k) {
    const float* at = in + ((i + k * 64) & 0xffff);
    float left[6], right[6];
#pragma unroll
    for (int n = 0; n < 6; ++n) left[n] = at[n * 32], right[n] = at[n * 32 + 1024];
#pragma unroll
    for (int row = 0; row < 6; ++row)
#pragma unroll
      for (int column = 0; column < 6; ++column) sums[row][column] += left[row] * right[column];  // planted
  }
  float sum = 0;
#pragma unroll
  for (int n = 0; n < 36; ++n) sum += sums[n / 6][n % 6] * static_cast<float>(n + 1);
  out[i] = sum;
}
__global__ void __launch_bounds__(512, 4) spill(const float* in, float* out, int depth) {
  outer_products(in, out, depth);
}
__global__ void __launch_bounds__(512) spill_repaired(const float* in, float* out, int depth) {
  outer_products(in, out, depth);
}

// Buckets of a hash table: the remainder by their number, which is a power of two, or a mask.
template <bool kMasked>
__device__ __forceinline__ void buckets(const int* numbers, float* out, unsigned size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned key = static_cast<unsigned>(numbers[i & kMask]), sum = 0;
#pragma unroll 1
  for (int k = 0; k < 48; ++k) {
#pragma unroll
    for (int mix = 0; mix < 8; ++mix) key = (key ^ key >> 15) * 0x2c1b3c6du ^ key << 3;
    sum += kMasked ? key & (size - 1) : key % size;  // planted
  }
  out[i] = static_cast<float>(sum & 0xffff);
}
__global__ void division(const int* numbers, float* out, unsigned size) {
  buckets<false>(numbers, out, size);
}
__global__ void division_repaired(const int* numbers, float* out, unsigned size) {
  buckets<true>(numbers, out, size);
}

// Newton's iteration, as often as a lane's number says; numbers come in any order, or sorted.
__global__ void divergent_branch(const int* numbers, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int number = numbers[i], turns = number & 127;
  float value = static_cast<float>(number & 1023) + 2.0f;
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
    value = value * 0.5f + 1.7f / (value + 0.3f);  // planted
  }
  out[i] = value;
}

// Blocks of one warp, of which a multiprocessor takes 32, or of two warps.
__global__ void low_occupancy(const float* in, float* out, int rounds, int threads) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    sum = sum * 0.99f + in[(i + k * threads) & 0xfffff];  // planted
  }
  out[i] = sum;
}

// The last blocks have three times the work of the others and begin last, or first.
__global__ void tail(const float* in, float* out, int rounds, bool last) {
  const int block = last ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
  const int i = block * blockDim.x + threadIdx.x, turns = block >= gridDim.x - 66 ? rounds * 3 : rounds;
  float value = in[i & kMask];
  for (int k = 0; k < turns; ++k) {
    value = value * 0.999f + 0.0007f;  // planted
  }
  out[i] = value;
}

// Losses of floating point, added up by every thread, or by one of each warp.
template <bool kOfWarps>
__device__ __forceinline__ void losses(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float target = in[(i + 999) & kMask];
  float loss = 0, value = in[i & kMask];
  for (int k = 0; k < rounds; ++k) {
    value = value * 0.99f + target * 0.01f;
    loss += (value - target) * (value - target) * 0.01f;
  }
  if (kOfWarps)
    for (int step = 16; step > 0; step /= 2) loss += __shfl_xor_sync(~0u, loss, step);
  if (!kOfWarps || (threadIdx.x & 31) == 0) {
    atomicAdd(out + (blockIdx.x & 15), loss);  // planted
  }
}
__global__ void serial_atomics(const float* in, float* out, int rounds) { losses<false>(in, out, rounds); }
__global__ void serial_atomics_repaired(const float* in, float* out, int rounds) {
  losses<true>(in, out, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const Arrays a = filled();
  int* sorted = nullptr;
  constexpr int kBranches = 4224 * 256;
  check(cudaMalloc(&sorted, kBranches * sizeof(int)));
  std::vector<int> numbers(kBranches);
  check(cudaMemcpy(numbers.data(), a.numbers, kBranches * sizeof(int), cudaMemcpyDeviceToHost));
  for (int k = 0; k < kBranches; k += 2048)
    std::sort(numbers.begin() + k, numbers.begin() + std::min(k + 2048, kBranches),
              [](int one, int other) { return (one & 127) < (other & 127); });
  check(cudaMemcpy(sorted, numbers.data(), kBranches * sizeof(int), cudaMemcpyHostToDevice));
  const dim3 tiles(kSide / 32, kSide / 32), tile(32, 8);
  constexpr int kOfOccupancy = 8448 * 64;
  const std::vector<Pair> pairs = {
      {"uncoalesced", [&] { uncoalesced<<<tiles, tile>>>(a.in, a.out); },
       [&] { uncoalesced_repaired<<<tiles, tile>>>(a.in, a.out); }},
      {"bank_conflict", [&] { bank_conflict<<<1056, 256>>>(a.in, a.out, 128); },
       [&] { bank_conflict_repaired<<<1056, 256>>>(a.in, a.out, 128); }},
      {"long_scoreboard", [&] { long_scoreboard<<<396, 128>>>(a.in, a.out, 192); },
       [&] { long_scoreboard_repaired<<<396, 128>>>(a.in, a.out, 192); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<1056, 256>>>(a.in, a.out, 40); },
       [&] { barrier_imbalance_repaired<<<1056, 256>>>(a.in, a.out, 40); }},
      {"spill", [&] { spill<<<528, 512>>>(a.in, a.out, 96); },
       [&] { spill_repaired<<<528, 512>>>(a.in, a.out, 96); }},
      {"division", [&] { division<<<3168, 256>>>(a.numbers, a.out, 4096); },
       [&] { division_repaired<<<3168, 256>>>(a.numbers, a.out, 4096); }},
      {"divergent_branch", [&] { divergent_branch<<<4224, 256>>>(a.numbers, a.out); },
       [&] { divergent_branch<<<4224, 256>>>(sorted, a.out); }},
      {"low_occupancy", [&] { low_occupancy<<<kOfOccupancy / 32, 32>>>(a.in, a.out, 48, kOfOccupancy); },
       [&] { low_occupancy<<<kOfOccupancy / 64, 64>>>(a.in, a.out, 48, kOfOccupancy); }},
      {"tail", [&] { tail<<<2640, 256>>>(a.in, a.out, 1024, true); },
       [&] { tail<<<2640, 256>>>(a.in, a.out, 1024, false); }},
      {"serial_atomics", [&] { serial_atomics<<<2112, 256>>>(a.in, a.out, 128); },
       [&] { serial_atomics_repaired<<<2112, 256>>>(a.in, a.out, 128); }},
  };
  return run_pairs(argc, argv, a, pairs);
}
