// A call through a table of functions, one entry behind its end.
#include "check.cuh"

typedef int (*Function)(int);

__device__ __noinline__ int call(Function function, int x) {
  return function(x) + 1;  // @call
}

__global__ void invalid_call(const unsigned long long* table, int* out) {
  out[threadIdx.x] = call(reinterpret_cast<Function>(table[1]), threadIdx.x);  // @kernel
}

int main() {
  unsigned long long* table = zeroed<unsigned long long>(2);
  unsigned long long garbage = 0x7654321000ull;
  check(cudaMemcpy(table + 1, &garbage, sizeof garbage, cudaMemcpyHostToDevice), "cudaMemcpy");
  invalid_call<<<1, 32>>>(table, zeroed<int>(32));
  return finish();
}
