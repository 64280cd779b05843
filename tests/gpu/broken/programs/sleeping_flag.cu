// One thread of each block sleeps until the host sets a flag, which it never does; all others wait for it.
#include <cuda/atomic>
#include "check.cuh"

__device__ __forceinline__ void wait_for_host(int* flag) {
  cuda::atomic_ref<int, cuda::thread_scope_system> word(*flag);
  while (word.load(cuda::memory_order_acquire) == 0) __nanosleep(1000);  // @spin
}

__global__ void sleeping_flag(int* flag, int* out) {
  if (threadIdx.x == 70) wait_for_host(flag);  // @late
  __syncthreads();  // @barrier
  out[threadIdx.x] = 1;
}

int main() {
  int* flag = nullptr;
  check(cudaMallocHost(&flag, sizeof(int)), "cudaMallocHost");
  *flag = 0;
  sleeping_flag<<<3, 96>>>(flag, zeroed<int>(96));
  return finish();
}
