// An mbarrier is told of 4096 bytes, and a copy of 1024 is all that comes: everybody waits for its phase.
#include <cstdint>
#include "check.cuh"

__device__ __forceinline__ bool try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(  // @try
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)  // @operands
      : "memory");
  return done;
}

__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
  while (!try_wait(barrier, parity)) {}  // @loop
}

__global__ void mbarrier_bytes(const int* source, int* out) {
  __shared__ alignas(8) uint64_t barrier;
  __shared__ alignas(128) int tile[1024];
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  uint32_t target = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(address) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(target),
        "l"(source), "r"(address)
        : "memory");
  }
  wait(address, 0);  // @wait
  out[threadIdx.x] = tile[threadIdx.x];
}

int main() {
  mbarrier_bytes<<<1, 64>>>(zeroed<int>(1024), zeroed<int>(64));
  return finish();
}
