// One kernel for each class of instructions that event traces know (sm_90a).
#include <cooperative_groups.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

__device__ uint32_t offset_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ void init(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(offset_of(barrier)), "r"(count) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(offset_of(barrier))
               : "memory");
}

__device__ void expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(offset_of(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(
          offset_of(barrier)),
      "r"(parity)
      : "memory");
}

__global__ void mbarrier(int* out) {
  __shared__ alignas(8) uint64_t barrier;
  __shared__ int tile[64];
  if (threadIdx.x == 0) init(&barrier, 64);
  __syncthreads();
  tile[threadIdx.x] = threadIdx.x;
  arrive(&barrier);
  wait(&barrier, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void copy_async(const int4* in, int* out) {
  __shared__ int4 tile[64];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(offset_of(&tile[threadIdx.x])),
               "l"(&in[threadIdx.x])
               : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x].x;
}

__global__ void bulk(const int* in, int* out) {
  __shared__ alignas(128) int tile[256];
  __shared__ alignas(8) uint64_t barrier;
  if (threadIdx.x == 0) init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(&barrier, sizeof tile);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            offset_of(tile)),
        "l"(in), "r"(static_cast<uint32_t>(sizeof tile)), "r"(offset_of(&barrier))
        : "memory");
  }
  wait(&barrier, 0);
  tile[threadIdx.x] += 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out),
                 "r"(offset_of(tile)), "r"(static_cast<uint32_t>(sizeof tile))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

__global__ void __cluster_dims__(2, 1, 1) cluster(int* out) {
  __shared__ int tile[32];
  cg::cluster_group group = cg::this_cluster();
  int* other = group.map_shared_rank(tile, group.block_rank() ^ 1);
  group.sync();
  other[threadIdx.x] = threadIdx.x + 100 * group.block_rank();
  group.sync();
  out[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];
}

__device__ __noinline__ int called(int x) { return x * x + 1; }

__global__ void calls(int* out) { out[threadIdx.x] = called(threadIdx.x); }

__global__ void shuffles(int* out) {
  out[blockIdx.x * 32 + threadIdx.x] = __shfl_xor_sync(~0u, static_cast<int>(threadIdx.x), 1);
}

__global__ void allocates(int* out) {
  int* memory = static_cast<int*>(malloc(16));
  memory[0] = threadIdx.x;
  out[threadIdx.x] = memory[0];
  free(memory);
}

__global__ void matrices(const __nv_bfloat16* in, float* out) {
  __shared__ alignas(128) __nv_bfloat16 a[64 * 16], b[8 * 16];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) a[i] = in[i];
  b[threadIdx.x] = in[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  uint32_t fragment[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(offset_of(a) + threadIdx.x % 32 * 16));
  const uint64_t description_a = (offset_of(a) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
  const uint64_t description_b = (offset_of(b) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
  float sum[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "l"(description_a), "l"(description_b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3] + fragment[0] * 1e-30f;
}

int main() {
  int* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  cudaMemset(memory, 0, 1 << 20);
  int* out = memory + 65536;
  mbarrier<<<1, 64>>>(out);
  copy_async<<<1, 64>>>(reinterpret_cast<int4*>(memory), out);
  bulk<<<1, 256>>>(memory, out);
  cluster<<<2, 32>>>(out);
  calls<<<1, 32>>>(out);
  shuffles<<<1, 32>>>(out);
  allocates<<<1, 32>>>(out);
  matrices<<<1, 128>>>(reinterpret_cast<__nv_bfloat16*>(memory), reinterpret_cast<float*>(out));
  cudaError_t error = cudaDeviceSynchronize();
  cudaStream_t streams[2];
  cudaStreamCreate(&streams[0]);
  cudaStreamCreate(&streams[1]);
  for (int i = 0; i < 8; ++i) shuffles<<<4, 32, 0, streams[i % 2]>>>(out + 1024 * (i % 2));
  cudaGraph_t graph;
  cudaGraphExec_t run;
  cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal);
  calls<<<1, 32, 0, streams[0]>>>(out);
  shuffles<<<1, 32, 0, streams[0]>>>(out);
  cudaStreamEndCapture(streams[0], &graph);
  cudaGraphInstantiate(&run, graph, 0);
  cudaGraphLaunch(run, streams[0]);
  cudaGraphLaunch(run, streams[0]);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
