// The hand-over of flag_without_fence with an acquire whose scope is one block: it does not reach the block
// that wrote.
#include "trials.h"

__device__ int acquire(int* flag) {
  int value;
#ifdef FIXED
  asm volatile("atom.acquire.gpu.global.add.u32 %0, [%1], 0;" : "=r"(value) : "l"(flag) : "memory");
#else
  asm volatile("atom.acquire.cta.global.add.u32 %0, [%1], 0;" : "=r"(value) : "l"(flag) : "memory");
#endif
  return value;
}

__global__ void wrong_scope(int* out, int* data, int* flag, int number) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = number;
    __threadfence();
    atomicExch(flag, 1);
  } else {
    work(2000);
    const int near = __ldca(data + 1);
    while (acquire(flag) == 0) {
    }
    int late;
    asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(late) : "l"(data) : "memory");
    out[0] = late + near;
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 1,
      [](int* words, int number) { wrong_scope<<<2, 32>>>(words, words + 256, words + 512, number); },
      [](int number, int) { return number; });
}
