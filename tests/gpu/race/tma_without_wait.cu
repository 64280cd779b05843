// Warp 0 has the copy engine fill a tile; warp 1 reads it without waiting for the copy's mbarrier.
#include "mbarriers.h"

__global__ void source(int* words, int number) { words[512 + threadIdx.x] = number + threadIdx.x; }

__global__ void tma_without_wait(int* out) {
  __shared__ alignas(128) int tile[32];
  __shared__ alignas(8) uint64_t full;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = 0;
  }
  if (threadIdx.x == 0) {
    init(&full, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (lane == 0) {
      expect(&full, sizeof tile);
      bulk_load(tile, out + 512, sizeof tile, &full);
    }
    wait(&full, 0);  // the block may not end before the copy does
  } else {
    work(2000);
    if (kFixed) wait(&full, 0);
    out[lane] = tile[31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32,
      [](int* words, int number) {
        source<<<1, 32>>>(words, number);
        tma_without_wait<<<1, 64>>>(words);
      },
      [](int number, int i) { return number + 31 - i; });
}
