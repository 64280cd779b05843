// Warp 0 fills a tile twice; warp 1 waits for the second filling with the parity of the first.
#include "mbarriers.h"

__global__ void wrong_phase(int* out, int number) {
  __shared__ int tile[32];
  __shared__ alignas(8) uint64_t full, empty;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    init(&full, 32);
    init(&empty, 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    tile[lane] = number;
    arrive(&full);
    wait(&empty, 0);
    tile[lane] = number + lane;
    arrive(&full);
  } else {
    wait(&full, 0);
    const int first = tile[lane];
    arrive(&empty);
    work(1000);
    wait(&full, kFixed ? 1 : 0);
    out[lane] = first + tile[31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { wrong_phase<<<1, 64>>>(words, number); },
      [](int number, int i) { return 2 * number + 31 - i; });
}
