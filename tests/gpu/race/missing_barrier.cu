// Warp 0 fills a tile and warp 1 reads it; the barrier between them is missing.
#include "trials.h"

__global__ void missing_barrier(int* out, int number) {
  __shared__ int tile[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = 0;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    tile[lane] = number + lane;
  } else {
    work(1000);
  }
  if (kFixed) __syncthreads();
  if (threadIdx.x >= 32) {
    out[lane] = tile[31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { missing_barrier<<<1, 64>>>(words, number); },
      [](int number, int i) { return number + 31 - i; });
}
