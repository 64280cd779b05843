// Thread 9 writes to shared memory far behind the block's window.
#include "check.cuh"

__device__ __forceinline__ void put(unsigned address, int value) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");  // @put
}

__global__ void shared_out_of_range(int* out, int far) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  put(base + 4 * threadIdx.x + (threadIdx.x == 9 ? far : 0), 1);  // @kernel
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

int main() {
  shared_out_of_range<<<1, 64>>>(zeroed<int>(64), 1 << 20);
  return finish();
}
