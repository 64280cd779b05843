// What hammers memory beside a program's kernels: its blocks read and write chosen lines of memory of their
// own, as tests of GPU memory models do (Sorensen and Donaldson, "Exposing errors related to weak memory in
// GPU applications", PLDI 2016). stress.ptx is made from it (scripts/generate_patches.py) and assembled by
// the driver of the program.
#include "sanitizer/stress_kernel.h"

static __device__ __forceinline__ unsigned int mixed(unsigned int x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

static __device__ __forceinline__ unsigned long long time_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

extern "C" __global__ void ws_stress(unsigned int* words, WsStress stress) {
  const unsigned long long begin = time_ns();
  const unsigned int line = mixed(stress.seed ^ (blockIdx.x * 32 + threadIdx.x / 32)) % stress.lines;
  volatile unsigned int* own = words + (mixed(stress.seed + line) * stress.stride & stress.mask);
  unsigned int value = threadIdx.x % 32;
  while (time_ns() - begin < stress.ns) {
    for (unsigned int pass = 0; pass < 8; ++pass) {
      for (unsigned int step = 0; step < 4; ++step) {
        volatile unsigned int* word = own + ((value + step * 8) & 31);
        switch (stress.pattern >> 2 * step & 3) {
          case WS_STRESS_LOAD:
            value += *word & 31;
            break;
          case WS_STRESS_STORE:
            *word = value;
            break;
          case WS_STRESS_STORE_SAME:
            *own = value;
            break;
          default:
            atomicAdd(const_cast<unsigned int*>(word), 1u);
        }
      }
    }
  }
  if (value == 0xffffffffu) *own = value;  // so that nothing above is left out
}
