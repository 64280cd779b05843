// What the racy programs share: many launches in one process, each checked.
//
//   PROGRAM [LAUNCHES]     prints "wrong N of M" and ends with 1 when one was wrong
//
// Compiled with -DFIXED each program is its repaired twin.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef FIXED
constexpr bool kFixed = true;
#else
constexpr bool kFixed = false;
#endif

// Keeps a thread busy for n × 10 cycles, about n × 5 ns; touches no memory.
__device__ __forceinline__ void work(int n) {
  const long long begin = clock64();
  while (clock64() - begin < 10ll * n) {
  }
  asm volatile("" ::: "memory");  // what follows stays behind
}

__device__ __forceinline__ uint32_t offset_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Memory of a trial: all words zero before each launch.
constexpr int kWords = 1024;

// `launch(words, number)` launches kernels; `expected(number, i)` says what word i of the first `checked` is
// then.
template <class Launch, class Expected>
int trials(int argc, char** argv, int checked, Launch launch, Expected expected) {
  const int launches = argc > 1 ? atoi(argv[1]) : 1000;
  int* words = nullptr;
  static int found[kWords];
  if (cudaMalloc(&words, kWords * sizeof(int)) != cudaSuccess) return 2;
  int wrong = 0, made = 0;
  cudaError_t error = cudaSuccess;
  for (int number = 1; number <= launches && error == cudaSuccess; ++number, ++made) {
    cudaMemset(words, 0, kWords * sizeof(int));
    cudaDeviceSynchronize();
    launch(words, number);
    error = cudaDeviceSynchronize();
    if (error == cudaSuccess) error = cudaMemcpy(found, words, checked * sizeof(int), cudaMemcpyDeviceToHost);
    bool right = error == cudaSuccess;
    for (int i = 0; right && i < checked; ++i) right = found[i] == expected(number, i);
    wrong += !right;
  }
  printf("wrong %d of %d%s%s\n", wrong, made, error != cudaSuccess ? ": " : "",
         error != cudaSuccess ? cudaGetErrorString(error) : "");
  return wrong != 0;
}
