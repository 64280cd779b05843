// Warp 1 reads the tile of the pass before while warp 0 fills the next one: that takes three tiles, not two.
#include "trials.h"

__global__ void double_buffer(int* out, int number) {
  constexpr int kTiles = kFixed ? 3 : 2;
  constexpr int kPasses = 8;
  __shared__ int tiles[kTiles][32];
  const int lane = threadIdx.x % 32;
  int sum = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {
    if (threadIdx.x < 32) {
      if (pass < kPasses) {
        work(300);
        tiles[pass % kTiles][lane] = number + pass + lane;
      }
    } else if (pass > 1) {
      sum += tiles[(pass - 2) % kTiles][31 - lane];
    }
    __syncthreads();
  }
  if (threadIdx.x >= 32) {
    out[lane] = sum;
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { double_buffer<<<1, 64>>>(words, number); },
      [](int number, int i) { return 7 * (number + 31 - i) + 21; });
}
