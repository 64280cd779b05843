// One stream fills a buffer, another reads it after some other work; no event orders the two.
#include "trials.h"

__global__ void fill(int* buffer, int number) { buffer[threadIdx.x] = number + threadIdx.x; }

__global__ void other_work() { work(10000); }

__global__ void copy(int* out, const int* buffer) { out[threadIdx.x] = buffer[31 - threadIdx.x]; }

int main(int argc, char** argv) {
  cudaStream_t first, second;
  cudaEvent_t filled;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&filled, cudaEventDisableTiming);
  return trials(
      argc, argv, 32,
      [&](int* words, int number) {
        fill<<<1, 32, 0, first>>>(words + 512, number);
        if (kFixed) cudaEventRecord(filled, first);
        other_work<<<1, 32, 0, second>>>();
        if (kFixed) cudaStreamWaitEvent(second, filled);
        copy<<<1, 32, 0, second>>>(words, words + 512);
      },
      [](int number, int i) { return number + 31 - i; });
}
