// An mbarrier ends three phases while warp 0 fills two tiles. Warp 1 waits for the last by its parity, which
// is the first one's too.
#include "mbarriers.h"

__global__ void wrong_phase(int* out, int number) {
  __shared__ int tiles[2][32];
  __shared__ alignas(8) uint64_t full, last;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    init(&full, 32);
    init(&last, 32);
  }
  if (threadIdx.x < 32) {
    tiles[1][lane] = 0;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    tiles[0][lane] = number;
    arrive(&full);
    tiles[1][lane] = number + lane;
    arrive(&full);
    arrive(&full);
    arrive(&last);
  } else {
    work(1500);
    wait(kFixed ? &last : &full, 0);
    out[lane] = tiles[0][lane] + tiles[1][31 - lane];
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { wrong_phase<<<1, 64>>>(words, number); },
      [](int number, int i) { return 2 * number + 31 - i; });
}
