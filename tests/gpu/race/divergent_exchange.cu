// The lower half of a warp hands words to the upper half through shared memory, on two sides of a branch:
// which side runs first is nobody's promise.
#include "trials.h"

__global__ void divergent_exchange(int* out, int number) {
  __shared__ volatile int tile[16];
  const int lane = threadIdx.x;
  if (lane < 16) {
    tile[lane] = 0;
  }
  __syncwarp();
  if (lane < 16) {
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) tile[lane] = pass * (number + lane);
    if (kFixed) __syncwarp();
  } else {
    if (kFixed) __syncwarp();
    __nanosleep(2000);
    out[lane - 16] = tile[31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 16, [](int* words, int number) { divergent_exchange<<<1, 32>>>(words, number); },
      [](int number, int i) { return number + 15 - i; });
}
