// Block 0 hands a word to block 1 through a flag. Block 1 reads a word beside it early, and without a fence
// behind the flag it may find the old word in its cache.
#include "trials.h"

__global__ void flag_without_fence(int* out, int* data, int* flag, int number) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = number;
    __threadfence();
    atomicExch(flag, 1);
  } else {
    work(2000);
    const int near = __ldca(data + 1);
    while (atomicAdd(flag, 0) == 0) {
    }
    if (kFixed) __threadfence();
    int late;
    asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(late) : "l"(data) : "memory");
    out[0] = late + near;
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 1,
      [](int* words, int number) { flag_without_fence<<<2, 32>>>(words, words + 256, words + 512, number); },
      [](int number, int) { return number; });
}
