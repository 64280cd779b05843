// Kernels with a planted race that an event trace does not show, each beside its repaired twin.
#include <cooperative_groups.h>

#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

__device__ __forceinline__ uint32_t offset_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void init(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(offset_of(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(offset_of(barrier))
               : "memory");
}

__device__ __forceinline__ void expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(offset_of(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(offset_of(barrier)), "r"(parity)
        : "memory");
  }
}

__device__ __forceinline__ void bulk_load(void* target, const void* source, uint32_t bytes,
                                          uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          offset_of(target)),
      "l"(source), "r"(bytes), "r"(offset_of(barrier))
      : "memory");
}

// A block reads what the other one of its cluster stored; the cluster's barrier between is missing.
template <bool kFixed>
__global__ void __cluster_dims__(2, 1, 1) cluster_memory(int* out) {
  __shared__ int tile[32];
  cg::cluster_group cluster = cg::this_cluster();
  tile[threadIdx.x] = threadIdx.x;
  if (kFixed) cluster.sync();
  const int* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  out[blockIdx.x * 32 + threadIdx.x] = other[31 - threadIdx.x];
  cluster.sync();
}

// Stores to shared memory that the copy engine then reads: without a fence of its proxy it may miss them.
template <bool kFixed>
__global__ void proxy_fence(int* out) {
  __shared__ alignas(128) int tile[128];
  tile[threadIdx.x] = threadIdx.x;
  if (kFixed) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out),
                 "r"(offset_of(tile)), "r"(512)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// A tile in two halves, loaded in two phases of one mbarrier; the reader waits for the first phase twice.
template <bool kFixed>
__global__ void phases(const int* in, int* out) {
  __shared__ alignas(128) int tile[2][32];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    init(&full, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int half = 0; half < 2; ++half) {
      expect(&full, 128);
      bulk_load(tile[half], in + 32 * half, 128, &full);
      wait(&full, half);
    }
    if (!kFixed) expect(&full, 0);  // a third phase ends, whose parity is that of the first
  }
  if (threadIdx.x >= 32) {
    const long long begin = clock64();
    while (clock64() - begin < 100000) {
    }
    wait(&full, 0);
    int sum = tile[0][threadIdx.x - 32];
    if (kFixed) wait(&full, 1);
    sum += tile[1][63 - threadIdx.x];
    out[threadIdx.x] = sum;
  }
}

// A ring of two buffers between a warp that loads and one that reads, with mbarriers for full and empty.
__global__ void ring_fixed(const int* in, int* out) {
  __shared__ alignas(128) int tile[2][32];
  __shared__ alignas(8) uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      init(full + i, 1);
      init(empty + i, 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int pass = 0; pass < 16; ++pass) {
      wait(empty + pass % 2, (pass / 2 + 1) % 2);
      expect(full + pass % 2, 128);
      bulk_load(tile[pass % 2], in + 32 * pass, 128, full + pass % 2);
    }
  } else if (threadIdx.x >= 32) {
    int sum = 0;
    for (int pass = 0; pass < 16; ++pass) {
      wait(full + pass % 2, pass / 2 % 2);
      sum += tile[pass % 2][63 - threadIdx.x];
      arrive(empty + pass % 2);
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
  }
}

// cp.async: the copies of a thread are waited for, or not, before the barrier.
template <bool kFixed>
__global__ void copies(const int4* in, int* out) {
  __shared__ alignas(128) int4 tile[64];
  const uint32_t to = offset_of(tile + threadIdx.x);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (kFixed) asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x].x;
  if (!kFixed) asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// The last block of a grid adds up what the others wrote; without the fence it may not see it.
template <bool kFixed>
__global__ void last_block(int* parts, int* done, int* out) {
  __shared__ bool last;
  parts[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
  if (kFixed) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1) == static_cast<int>(gridDim.x) - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  int sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i * 64 + threadIdx.x];
  out[threadIdx.x] = sum;
}

__global__ void bytes_fixed(unsigned char* out) { out[blockIdx.x * 33 + threadIdx.x] = threadIdx.x; }

__global__ void bytes_race(unsigned char* out) { out[blockIdx.x * 32 + threadIdx.x] = threadIdx.x; }

int main() {
  int* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  cudaMemset(memory, 0, 1 << 20);
  int* out = memory + 65536;
  cluster_memory<false><<<2, 32>>>(out);
  cluster_memory<true><<<2, 32>>>(out);
  proxy_fence<false><<<1, 128>>>(out);
  proxy_fence<true><<<1, 128>>>(out);
  phases<false><<<1, 64>>>(memory, out);
  phases<true><<<1, 64>>>(memory, out);
  ring_fixed<<<4, 64>>>(memory, out);
  copies<false><<<1, 64>>>(reinterpret_cast<int4*>(memory), out);
  copies<true><<<1, 64>>>(reinterpret_cast<int4*>(memory), out);
  last_block<false><<<32, 64>>>(memory, memory + 32768, out);
  last_block<true><<<32, 64>>>(memory, memory + 32769, out);
  bytes_fixed<<<2, 33>>>(reinterpret_cast<unsigned char*>(out));
  bytes_race<<<2, 33>>>(reinterpret_cast<unsigned char*>(out));
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
