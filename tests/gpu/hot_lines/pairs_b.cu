// Ten more kernels with one slow line each, of other programs than those of pairs_a.cu, and their repairs;
// see pairs.h.
#include "pairs.h"

namespace {

constexpr int kMask = kFloats - 1;

struct Particle {
  float x, y, z, mass, vx, vy, vz, charge;
};

// Energy of particles: an array of structures, of which two members are read.
__device__ __forceinline__ float energy(float x, float mass, int steps) {
  float value = x;
  for (int k = 0; k < steps; ++k) value = value * 0.99f + mass;
  return value;
}
__global__ void uncoalesced(const Particle* particles, float* out, int steps) {
  const int threads = gridDim.x * blockDim.x;
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x + k * threads;
    sum += energy(particles[i].x, particles[i].mass, steps);  // planted
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// A structure of arrays, which holds the same numbers: filled by split() before.
__global__ void split(const Particle* particles, float* x, float* mass, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = particles[i].x, mass[i] = particles[i].mass;
}
__global__ void uncoalesced_repaired(const float* x, const float* mass, float* out, int steps) {
  const int threads = gridDim.x * blockDim.x;
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x + k * threads;
    sum += energy(x[i], mass[i], steps);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Each thread smooths a row of eight floats in shared memory: lanes are eight words apart.
template <int kPitch>
__device__ __forceinline__ void smooth(const float* in, float* out) {
  __shared__ float rows[256 * kPitch];
  const int first = blockIdx.x * 2048;
  for (int k = threadIdx.x; k < 2048; k += 256) rows[k / 8 * kPitch + (k & 7)] = in[(first + k) & kMask];
  __syncthreads();
  float* row = rows + threadIdx.x * kPitch;
  float last = 0;
#pragma unroll 1
  for (int round = 0; round < 24; ++round) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      last = 0.5f * last + row[k];  // planted
    }
    row[round & 7] = last;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < 2048; k += 256) out[first + k] = rows[k / 8 * kPitch + (k & 7)];
}
__global__ void bank_conflict(const float* in, float* out) { smooth<8>(in, out); }
__global__ void bank_conflict_repaired(const float* in, float* out) { smooth<9>(in, out); }

// Lists that are followed: one list a thread, or two at once.
template <int kLists>
__device__ __forceinline__ void follow(const int* next, float* out, int hops) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int at[kLists];
  for (int k = 0; k < kLists; ++k) at[k] = (i * kLists + k) * 61;
  for (int hop = 0; hop < hops; ++hop) {
    for (int k = 0; k < kLists; ++k) at[k] = next[at[k]];  // planted
  }
  int sum = 0;
  for (int k = 0; k < kLists; ++k) sum += at[k] & 1023;
  atomicAdd(out + (i & 31), static_cast<float>(sum & 1023));
}
__global__ void long_scoreboard(const int* next, float* out) { follow<1>(next, out, 96); }
__global__ void long_scoreboard_repaired(const int* next, float* out) { follow<2>(next, out, 96); }

// A triangle: warp w has w + 1 parts of the work of each step.
__global__ void barrier_imbalance(const float* in, float* out) {
  __shared__ float row[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32;
  float value = in[i & kMask];
  for (int step = 0; step < 32; ++step) {
    row[threadIdx.x] = value;
    __syncthreads();
    for (int k = 0; k < 16 * (warp + 1); ++k) value = value * 0.99f + row[(threadIdx.x + k) & 255];
    __syncthreads();  // planted
  }
  out[i] = value;
}
__global__ void barrier_imbalance_repaired(const float* in, float* out) {
  __shared__ float row[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
  for (int step = 0; step < 32; ++step) {
    row[threadIdx.x] = value;
    __syncthreads();
    for (int k = 0; k < 72; ++k) value = value * 0.99f + row[(threadIdx.x + k) & 255];
    __syncthreads();
  }
  out[i] = value;
}

// Sorts 16 values a thread by a table that is indexed at run time, so it lies in local memory.
__global__ void spill(const float* in, const int* numbers, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sums[16] = {};
  for (int k = 0; k < 64; ++k) {
    const int at = (i + k * threads) & kMask;
    sums[numbers[at] & 15] += in[at];  // planted
  }
  float total = 0;
  for (int k = 0; k < 16; ++k) total += sums[k] * static_cast<float>(k + 1);
  out[i] = total;
}
__global__ void spill_repaired(const float* in, const int* numbers, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sums[16] = {};
  for (int k = 0; k < 64; ++k) {
    const int at = (i + k * threads) & kMask;
    const int bin = numbers[at] & 15;
#pragma unroll
    for (int one = 0; one < 16; ++one) sums[one] += bin == one ? in[at] : 0.0f;
  }
  float total = 0;
  for (int k = 0; k < 16; ++k) total += sums[k] * static_cast<float>(k + 1);
  out[i] = total;
}

// A rational function, with divisions that IEEE rounds.
__global__ void division(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask] + 1.0f;
  for (int k = 0; k < 64; ++k) {
    value = (value + 2.0f) / (value * 0.5f + 1.5f);  // planted
  }
  out[i] = value;
}
__global__ void division_repaired(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask] + 1.0f;
  for (int k = 0; k < 64; ++k) value = __fdividef(value + 2.0f, value * 0.5f + 1.5f);
  out[i] = value;
}

// Values above a threshold take a long way; they come in any order, or sorted by the threshold.
__device__ __forceinline__ float long_way(float value) {
  if (value > 0.5f) {
    for (int k = 0; k < 96; ++k) value = value * 0.98f + 0.015f;  // planted
  }
  return value;
}
__global__ void divergent_branch(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += long_way(in[i + k * threads]);
  out[i] = sum;
}

// Few long threads: one block of 128 threads a multiprocessor, or four.
__global__ void low_occupancy(const float* in, float* out, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < rounds; ++k) {
    sum += sqrtf(in[(i + k * threads) & kMask]);  // planted
  }
  atomicAdd(out + (i & 1023), sum);
}

// One and a bit waves of blocks of 1024 threads.
__global__ void tail(const float* in, float* out, int rounds, int values) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < values; i += gridDim.x * blockDim.x) {
    float value = in[i & kMask];
    for (int k = 0; k < rounds; ++k) {
      value = value * 0.999f + 0.01f;  // planted
    }
    out[i] = value;
  }
}

// Each thread adds one sum to a single counter.
__device__ __forceinline__ int weigh(const float* in, int steps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[i & kMask];
  for (int k = 0; k < steps; ++k) value = value * 0.99f + 0.01f;
  return static_cast<int>(value * 64.0f);
}
__global__ void serial_atomics(const float* in, int* counters, int steps) {
  const int own = weigh(in, steps);
  if (atomicAdd(counters + (own & 3), own) < 0) counters[7] = 1;  // planted
}
__global__ void serial_atomics_repaired(const float* in, int* counters, int steps) {
  __shared__ int sums[4];
  if (threadIdx.x < 4) sums[threadIdx.x] = 0;
  const int own = weigh(in, steps);
  __syncthreads();
  for (int k = 0; k < 4; ++k) {
    const int warp = __reduce_add_sync(~0u, (own & 3) == k ? own : 0);
    if ((threadIdx.x & 31) == 0) atomicAdd(sums + k, warp);
  }
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(counters + threadIdx.x, sums[threadIdx.x]);
}

}  // namespace

int main(int argc, char** argv) {
  const Arrays a = filled();
  const auto* particles = reinterpret_cast<const Particle*>(a.in);
  constexpr int kParticles = kFloats / 8, kSteps = 64;
  float *x = nullptr, *mass = nullptr, *sorted = nullptr;
  check(cudaMalloc(&x, kParticles * sizeof(float)));
  check(cudaMalloc(&mass, kParticles * sizeof(float)));
  check(cudaMalloc(&sorted, kFloats * sizeof(float)));
  split<<<kParticles / 256, 256>>>(particles, x, mass, kParticles);
  std::vector<float> values(kFloats);
  check(cudaMemcpy(values.data(), a.in, kFloats * sizeof(float), cudaMemcpyDeviceToHost));
  constexpr int kOfBranches = 1056 * 256;
  for (int k = 0; k < 16; ++k)
    std::sort(values.begin() + k * kOfBranches, values.begin() + (k + 1) * kOfBranches);
  check(cudaMemcpy(sorted, values.data(), kFloats * sizeof(float), cudaMemcpyHostToDevice));
  constexpr int kOfTail = 300 * 1024;
  const std::vector<Pair> pairs = {
      {"uncoalesced", [&] { uncoalesced<<<kParticles / 2048, 256>>>(particles, a.out, kSteps); },
       [&] { uncoalesced_repaired<<<kParticles / 2048, 256>>>(x, mass, a.out, kSteps); }},
      {"bank_conflict", [&] { bank_conflict<<<2112, 256>>>(a.in, a.out); },
       [&] { bank_conflict_repaired<<<2112, 256>>>(a.in, a.out); }},
      {"long_scoreboard", [&] { long_scoreboard<<<1056, 256>>>(a.numbers, a.out); },
       [&] { long_scoreboard_repaired<<<528, 256>>>(a.numbers, a.out); }},
      {"barrier_imbalance", [&] { barrier_imbalance<<<1056, 256>>>(a.in, a.out); },
       [&] { barrier_imbalance_repaired<<<1056, 256>>>(a.in, a.out); }},
      {"spill", [&] { spill<<<1024, 256>>>(a.in, a.numbers, a.out); },
       [&] { spill_repaired<<<1024, 256>>>(a.in, a.numbers, a.out); }},
      {"division", [&] { division<<<2112, 256>>>(a.in, a.out); },
       [&] { division_repaired<<<2112, 256>>>(a.in, a.out); }},
      {"divergent_branch", [&] { divergent_branch<<<1056, 256>>>(a.in, a.out); },
       [&] { divergent_branch<<<1056, 256>>>(sorted, a.out); }},
      {"low_occupancy", [&] { low_occupancy<<<132, 128>>>(a.in, a.out, 512); },
       [&] { low_occupancy<<<264, 128>>>(a.in, a.out, 256); }},
      {"tail", [&] { tail<<<300, 1024>>>(a.in, a.out, 4096, kOfTail); },
       [&] { tail<<<1200, 256>>>(a.in, a.out, 4096, kOfTail); }},
      {"serial_atomics", [&] { serial_atomics<<<2112, 256>>>(a.in, a.bins, 512); },
       [&] { serial_atomics_repaired<<<2112, 256>>>(a.in, a.bins, 512); }},
  };
  return run_pairs(argc, argv, a, pairs);
}
