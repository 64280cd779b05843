// Shared memory that the async proxy reads: kernels with a planted race, each beside its repaired twin.
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdio>

__device__ __forceinline__ uint32_t offset_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A bulk copy reads what was stored, without a proxy fence.
template <bool kFixed>
__global__ void copied(int* out) {
  __shared__ alignas(128) int tile[128];
  tile[threadIdx.x] = threadIdx.x;
  if (kFixed) proxy_fence();
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(out), "r"(offset_of(tile))
               : "memory");
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void multiply(float (&sum)[4], const __nv_bfloat16* a, const __nv_bfloat16* b) {
  const uint64_t description_a = (offset_of(a) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
  const uint64_t description_b = (offset_of(b) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "l"(description_a), "l"(description_b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ __forceinline__ void fill(__nv_bfloat16* a, __nv_bfloat16* b, float value) {
  for (int i = threadIdx.x; i < 64 * 16; i += 128) a[i] = __float2bfloat16(value);
  b[threadIdx.x] = __float2bfloat16(1.f);
}

// A matrix product reads what was stored, without a proxy fence.
template <bool kFixed>
__global__ void multiplied(float* out) {
  __shared__ alignas(128) __nv_bfloat16 a[64 * 16], b[8 * 16];
  fill(a, b, 1.f);
  if (kFixed) proxy_fence();
  __syncthreads();
  float sum[4] = {};
  multiply(sum, a, b);
  wait_for_products();
  out[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}

// What a matrix product may still read is overwritten.
template <bool kFixed>
__global__ void overwritten(float* out) {
  __shared__ alignas(128) __nv_bfloat16 a[64 * 16], b[8 * 16];
  fill(a, b, 1.f);
  proxy_fence();
  __syncthreads();
  float sum[4] = {};
  multiply(sum, a, b);
  if (kFixed) wait_for_products();
  __syncthreads();
  a[threadIdx.x] = __float2bfloat16(2.f);
  wait_for_products();
  out[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}

int main() {
  int* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  auto* out = reinterpret_cast<float*>(memory);
  copied<false><<<1, 128>>>(memory);
  copied<true><<<1, 128>>>(memory);
  multiplied<false><<<1, 128>>>(out);
  multiplied<true><<<1, 128>>>(out);
  overwritten<false><<<1, 128>>>(out);
  overwritten<true><<<1, 128>>>(out);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
