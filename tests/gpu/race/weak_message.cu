// One block writes a word and then a flag, another reads the flag and then the word, without a fence on
// either side: both are in order in the code, and only the memory may swap them.
#include "trials.h"

constexpr int kPairs = 2, kSpread = 1 << 16;  // words between what two pairs use
__device__ int data[kPairs * kSpread], flags[kPairs * kSpread];
__device__ unsigned int arrived;

__device__ void begin_together(unsigned int wanted) {
  if (threadIdx.x == 0) {
    atomicAdd(&arrived, 1);
    const long long begin = clock64();
    while (*reinterpret_cast<volatile unsigned int*>(&arrived) < wanted && clock64() - begin < 1000000) {
    }
  }
  __syncthreads();
}

__global__ void weak_message(int* out, int turn) {
  const int pair = blockIdx.x / 2, place = pair * kSpread + turn * 64 % kSpread;
  volatile int* const flag = &flags[place];
  volatile int* const word = &data[place];
  begin_together(gridDim.x * turn);
  if (threadIdx.x != 0) return;
  if (blockIdx.x % 2 == 0) {
    *word = turn;
    if (kFixed) __threadfence();
    *flag = turn;
  } else if (kFixed) {
    if (*flag != turn) return;
    __threadfence();
    out[pair] = *word != turn;
  } else {
    const int seen = *flag, read = *word;
    out[pair] = seen == turn && read != turn;
  }
}

int main(int argc, char** argv) {
  static int turn = 0;  // of all launches of the process
  return trials(
      argc, argv, kPairs, [](int* words, int) { weak_message<<<2 * kPairs, 32>>>(words, ++turn); },
      [](int, int) { return 0; });
}
