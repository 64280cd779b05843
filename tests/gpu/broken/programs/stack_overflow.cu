// Recursion without an end: the stack of one thread runs over.
#include "check.cuh"

__device__ __noinline__ int descend(const volatile int* stop, int depth) {  // @entry
  volatile int kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = depth + i;  // @keep
  if (*stop) return kept[depth & 63];
  return descend(stop, depth + 1) + kept[(depth * 7) & 63];  // @descend
}

__global__ void stack_overflow(const int* stop, int* out) {
  out[threadIdx.x] = descend(stop, 0);  // @kernel
}

int main() {
  stack_overflow<<<1, 32>>>(zeroed<int>(1), zeroed<int>(32));
  return finish();
}
