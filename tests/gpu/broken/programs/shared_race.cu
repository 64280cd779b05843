// A reduction that forgets the barrier between two of its steps: a race on shared memory.
#include "check.cuh"

__device__ __forceinline__ void add_upper(int* tile, int step) {
  if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];  // @race
}

__global__ void shared_race(int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  for (int step = 64; step > 0; step /= 2) add_upper(tile, step);  // @kernel
  if (threadIdx.x == 0) *out = tile[0];
}

int main() {
  shared_race<<<1, 128>>>(zeroed<int>(1));
  return finish();
}
