// A ring of two stages: a producer warp fills them, three warps take what is there. Of stage 1 the last warp forgets to tell
// that it has read it, so the producer waits for one arrival, and the takers for the producer.
#include <cstdint>
#include "check.cuh"

__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile(  // @try
      "{\n .reg .pred p;\n again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra again;\n }" ::"r"(barrier),
      "r"(parity)  // @operands
      : "memory");
}

__global__ void pipeline_stage(int* out, int tiles) {
  __shared__ alignas(8) uint64_t full[2], empty[2];
  uint32_t filled = static_cast<uint32_t>(__cvta_generic_to_shared(full));
  uint32_t taken = static_cast<uint32_t>(__cvta_generic_to_shared(empty));
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(filled + 8 * stage) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 3;" ::"r"(taken + 8 * stage) : "memory");
    }
  }
  __syncthreads();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int tile = 0; tile < tiles; ++tile) {
    uint32_t stage = tile % 2, parity = tile / 2 % 2;
    if (warp == 0) {
      wait(taken + 8 * stage, parity ^ 1);  // @producer
      if (lane == 0) arrive(filled + 8 * stage);
    } else {
      wait(filled + 8 * stage, parity);  // @consumer
      if (lane == 0 && !(warp == 3 && stage == 1)) arrive(taken + 8 * stage);
    }
    __syncwarp();
  }
  out[threadIdx.x] = tiles;
}

int main() {
  pipeline_stage<<<1, 128>>>(zeroed<int>(128), 64);
  return finish();
}
