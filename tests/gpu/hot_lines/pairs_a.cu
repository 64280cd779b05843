// Ten everyday kernels with one slow line each, and their repairs; see pairs.h.
#include "pairs.h"

namespace {

constexpr int kMask = kFloats - 1;

// One thread a row of 64 floats.
__global__ void uncoalesced(const float* in, float* out) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int column = 0; column < 64; ++column) {
    sum += in[row * 64 + column] * static_cast<float>(column);  // planted
  }
  out[row] = sum;
}

// One warp a row.
__global__ void uncoalesced_repaired(const float* in, float* out) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  for (int one = 0; one < 32; ++one) {
    const int at = (row * 32 + one) * 64;
    float sum = in[at + lane] * static_cast<float>(lane) + in[at + 32 + lane] * static_cast<float>(lane + 32);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) out[row * 32 + one] = sum;
  }
}

template <int kWidth>
__device__ __forceinline__ void transpose(const float* in, float* out) {
  __shared__ float tile[32][kWidth];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * 4096 + x];
  __syncthreads();
  const int to_x = blockIdx.y * 32 + threadIdx.x, to_y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) {
    out[(to_y + j) * 4096 + to_x] = tile[threadIdx.x][threadIdx.y + j];  // planted
  }
}
__global__ void bank_conflict(const float* in, float* out) { transpose<32>(in, out); }
__global__ void bank_conflict_repaired(const float* in, float* out) { transpose<33>(in, out); }

template <int kUnrolled>
__device__ __forceinline__ void gather(const float* in, const int* numbers, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll kUnrolled
  for (int k = 0; k < 128; ++k) {
    sum += in[numbers[(i + k * threads) & kMask]];  // planted
  }
  out[i] = sum;
}
__global__ void long_scoreboard(const float* in, const int* numbers, float* out) {
  gather<1>(in, numbers, out);
}
__global__ void long_scoreboard_repaired(const float* in, const int* numbers, float* out) {
  gather<2>(in, numbers, out);
}

// Sums of blocks: every block works, then thread 0 adds up.
__global__ void barrier_imbalance(const float* in, float* out) {
  __shared__ float parts[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
  for (int round = 0; round < 16; ++round) {
    for (int k = 0; k < 32; ++k) value = value * 0.999f + 0.01f;
    parts[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      float sum = 0;
      for (int k = 0; k < 256; ++k) sum += parts[k];
      parts[0] = sum;
    }
    __syncthreads();  // planted
    value += parts[0] * 1e-6f;
    __syncthreads();
  }
  out[i] = value;
}

__global__ void barrier_imbalance_repaired(const float* in, float* out) {
  __shared__ float parts[8];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
  for (int round = 0; round < 16; ++round) {
    for (int k = 0; k < 32; ++k) value = value * 0.999f + 0.01f;
    float sum = value;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < 8; ++k) sum += parts[k];
    value += sum * 1e-6f;
    __syncthreads();
  }
  out[i] = value;
}

// 40 sums a thread.
__device__ __forceinline__ void forty_sums(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sums[40];
  for (int k = 0; k < 40; ++k) sums[k] = static_cast<float>(k);
#pragma unroll 1
  for (int round = 0; round < 32; ++round) {
    const float value = in[(i + round * threads) & kMask];
#pragma unroll
    for (int k = 0; k < 40; ++k) sums[k] = sums[k] * value + sums[(k + 7) % 40];  // planted
  }
  float sum = 0;
  for (int k = 0; k < 40; ++k) sum += sums[k];
  out[i] = sum;
}
__global__ void __launch_bounds__(256, 8) spill(const float* in, float* out) { forty_sums(in, out); }
__global__ void __launch_bounds__(256) spill_repaired(const float* in, float* out) { forty_sums(in, out); }

// Indices of a picture: 32-bit division by a width known at run time.
__global__ void division(const float* in, float* out, unsigned width, unsigned, unsigned) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
  for (unsigned k = 0; k < 32; ++k) {
    const unsigned at = i + k * threads;
    const unsigned y = at / width;  // planted
    const unsigned x = at - y * width;
    sum += in[(y + x * 4u + i) & kMask];
  }
  out[i] = sum;
}
__global__ void division_repaired(const float* in, float* out, unsigned width, unsigned factor,
                                  unsigned shift) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
  for (unsigned k = 0; k < 32; ++k) {
    const unsigned at = i + k * threads;
    const unsigned y = __umulhi(at, factor) >> shift;
    const unsigned x = at - y * width;
    sum += in[(y + x * 4u + i) & kMask];
  }
  out[i] = sum;
}

// Four kinds of work, by a number that differs between lanes or between warps.
__device__ __forceinline__ float kind_of_work(int kind, float value) {
  if (kind == 0) {
    for (int k = 0; k < 48; ++k) value = value * 0.99f + 0.5f;  // planted
  } else if (kind == 1) {
    for (int k = 0; k < 48; ++k) value = value * value * 0.1f + 0.25f;
  } else if (kind == 2) {
    for (int k = 0; k < 48; ++k) value = fabsf(value - 0.3f) * 1.01f;
  } else {
    for (int k = 0; k < 48; ++k) value = fminf(value * 1.3f, 2.0f - value);
  }
  return value;
}
__global__ void divergent_branch(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
  for (int round = 0; round < 16; ++round) value = kind_of_work(threadIdx.x & 3, value) + 0.1f;
  out[i] = value;
}
// The same pieces of work, dealt to lanes so that a warp has one kind.
__global__ void divergent_branch_repaired(const float* in, float* out) {
  const int thread = ((threadIdx.x & 31) * 4 + ((threadIdx.x >> 5) & 3)) | (threadIdx.x & ~127);
  const int i = blockIdx.x * blockDim.x + thread;
  float value = in[i & kMask];
  for (int round = 0; round < 16; ++round) value = kind_of_work(thread & 3, value) + 0.1f;
  out[i] = value;
}

// Streams over memory; a block claims more shared memory than it needs.
__global__ void low_occupancy(const float* in, float* out) {
  extern __shared__ float room[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  room[threadIdx.x] = 0;
  float sum = 0;
#pragma unroll 2
  for (int k = 0; k < 48; ++k) {
    sum += in[(i + k * threads) & kMask];  // planted
  }
  out[i] = sum + room[threadIdx.x];
}

__device__ __forceinline__ void polynomial(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
  for (int k = 0; k < rounds; ++k) {
    value = value * 0.999f + 0.01f;  // planted
  }
  out[i] = value;
}
// Work grows with the block's number, so the longest begin last.
__global__ void tail(const float* in, float* out) { polynomial(in, out, 200 + 4 * blockIdx.x); }
// A block has a long and a short part, so all are of equal length.
__global__ void tail_repaired(const float* in, float* out) {
  for (int part = 0; part < 2; ++part) {
    const int block = part == 0 ? blockIdx.x : 2 * gridDim.x - 1 - blockIdx.x;
    const int i = block * blockDim.x + threadIdx.x;
    float value = in[i & kMask];
    for (int k = 0; k < 200 + 4 * block; ++k) value = value * 0.999f + 0.01f;
    out[i] = value;
  }
}

// A histogram of 16 bins.
__global__ void serial_atomics(const int* numbers, int* bins) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (int k = 0; k < 4; ++k) {
    const int bin = numbers[(i + k * threads) & kMask] & 15;
    atomicAdd(bins + bin, 1);  // planted
  }
}
__global__ void serial_atomics_repaired(const int* numbers, int* bins) {
  __shared__ int own[16];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  if (threadIdx.x < 16) own[threadIdx.x] = 0;
  __syncthreads();
  for (int k = 0; k < 4; ++k) atomicAdd(own + (numbers[(i + k * threads) & kMask] & 15), 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(bins + threadIdx.x, own[threadIdx.x]);
}

}  // namespace

int main(int argc, char** argv) {
  const Arrays a = filled();
  constexpr int kRoom = 100 << 10;
  check(cudaFuncSetAttribute(low_occupancy, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom));
  const dim3 tiles(128, 128), tile(32, 8);
  // 1000 = 0x83126e98 with a shift of 9: ceil(2^41 / 1000) fits 32 bits, exact below 2^24.
  const unsigned factor = static_cast<unsigned>(((1ull << 41) + 999) / 1000);
  const std::vector<Pair> pairs = {
      {"uncoalesced", [&] { uncoalesced<<<1024, 256>>>(a.in, a.out); },
       [&] { uncoalesced_repaired<<<1024, 256>>>(a.in, a.out); }},
      {"bank_conflict", [&] { bank_conflict<<<tiles, tile>>>(a.in, a.out); },
       [&] { bank_conflict_repaired<<<tiles, tile>>>(a.in, a.out); }},
      {"long_scoreboard", [&] { long_scoreboard<<<264, 256>>>(a.in, a.numbers, a.out); },
       [&] { long_scoreboard_repaired<<<264, 256>>>(a.in, a.numbers, a.out); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<1056, 256>>>(a.in, a.out); },
       [&] { barrier_imbalance_repaired<<<1056, 256>>>(a.in, a.out); }},
      {"spill", [&] { spill<<<2112, 256>>>(a.in, a.out); },
       [&] { spill_repaired<<<2112, 256>>>(a.in, a.out); }},
      {"division", [&] { division<<<2112, 256>>>(a.in, a.out, 1000, factor, 9); },
       [&] { division_repaired<<<2112, 256>>>(a.in, a.out, 1000, factor, 9); }},
      {"divergent_branch", [&] { divergent_branch<<<1056, 256>>>(a.in, a.out); },
       [&] { divergent_branch_repaired<<<1056, 256>>>(a.in, a.out); }},
      {"low_occupancy", [&] { low_occupancy<<<1056, 256, kRoom>>>(a.in, a.out); },
       [&] { low_occupancy<<<1056, 256, kRoom / 2>>>(a.in, a.out); }},
      {"tail", [&] { tail<<<1584, 256>>>(a.in, a.out); }, [&] { tail_repaired<<<792, 256>>>(a.in, a.out); }},
      {"serial_atomics", [&] { serial_atomics<<<1056, 256>>>(a.numbers, a.bins); },
       [&] { serial_atomics_repaired<<<1056, 256>>>(a.numbers, a.bins); }},
  };
  return run_pairs(argc, argv, a, pairs);
}
