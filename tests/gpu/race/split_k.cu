// Four blocks add their parts of a sum to the result, each reading, adding and writing without a lock.
#include "trials.h"

__global__ void split_k(int* out, int number) {
  work(2000 * blockIdx.x);
  const int part = number * (blockIdx.x + 1) + threadIdx.x;
  if (kFixed) {
    atomicAdd(&out[threadIdx.x], part);
  } else {
    out[threadIdx.x] += part;
  }
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { split_k<<<4, 32>>>(words, number); },
      [](int number, int i) { return 10 * number + 4 * i; });
}
