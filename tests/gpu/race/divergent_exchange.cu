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
    tile[lane] = number + lane;
  }
  if (kFixed) __syncwarp();
  if (lane >= 16) {
    work(400);
    out[lane - 16] = tile[31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 16, [](int* words, int number) { divergent_exchange<<<1, 32>>>(words, number); },
      [](int number, int i) { return number + 15 - i; });
}
