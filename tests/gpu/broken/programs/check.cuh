// What every broken program does around its kernel: end with 1 and the driver's words when CUDA reports an error.
#pragma once
#include <cstdio>
#include <cstdlib>

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s (%d)\n", what, cudaGetErrorString(status), int(status));
  std::exit(1);
}

/// Zeroed device memory.
template <class T>
T* zeroed(size_t count) {
  T* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  check(cudaMemset(memory, 0, count * sizeof(T)), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
  return memory;
}

/// Say that the kernels are launched, then wait for them: a hang waits here.
inline int finish() {
  check(cudaGetLastError(), "launch");
  std::puts("launched");
  std::fflush(stdout);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::puts("finished");
  return 0;
}
