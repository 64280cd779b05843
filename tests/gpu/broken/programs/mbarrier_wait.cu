// An mbarrier expects two arrivals and gets one: everybody waits for its phase.
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

__global__ void mbarrier_wait(int* out) {
  __shared__ alignas(8) uint64_t barrier;
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(address));
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  wait(address, 0);  // @wait
  out[threadIdx.x] = 1;
}

int main() {
  mbarrier_wait<<<1, 64>>>(zeroed<int>(64));
  return finish();
}
