// A cuda::barrier is made for one warp more than the block has; every thread arrives and waits.
#include <cuda/barrier>
#include "check.cuh"

using Barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void mbarrier_count(int* out) {
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x + 32);
  __syncthreads();
  barrier.arrive_and_wait();  // @wait
  out[threadIdx.x] = 1;
}

int main() {
  mbarrier_count<<<2, 96>>>(zeroed<int>(96));
  return finish();
}
