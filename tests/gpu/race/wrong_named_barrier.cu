// Warps 0 and 1 each fill a tile and arrive at a named barrier of their own; warp 2 takes the wrong one
// first.
#include "trials.h"

__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory"); }
__device__ void wait(int barrier) { asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory"); }

__global__ void wrong_named_barrier(int* out, int number) {
  __shared__ int tiles[2][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < 2) {
    tiles[warp][lane] = 0;
  }
  __syncthreads();
  if (warp == 0) {
    tiles[0][lane] = number + lane;
    arrive(1);
  } else if (warp == 1) {
    work(1000);
    tiles[1][lane] = 2 * number + lane;
    arrive(2);
  } else {
    wait(kFixed ? 1 : 2);
    const int first = tiles[0][31 - lane];
    wait(kFixed ? 2 : 1);
    out[lane] = first + tiles[1][31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { wrong_named_barrier<<<1, 96>>>(words, number); },
      [](int number, int i) { return 3 * number + 2 * (31 - i); });
}
