// A barrier of the whole grid with a generation: the last block to arrive would start the next one, but 336 never start.
#include "check.cuh"

struct Barrier {
  unsigned count, generation;
};

__device__ __forceinline__ unsigned acquire(const unsigned* word) {
  unsigned value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ void meet(Barrier* barrier) {
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned before = acquire(&barrier->generation);
    __threadfence();
    if (atomicAdd(&barrier->count, 1) == gridDim.x * gridDim.y - 1) {
      barrier->count = 0;
      atomicAdd(&barrier->generation, 1);
    } else {
      while (acquire(&barrier->generation) == before) __nanosleep(200);  // @spin
    }
  }
  __syncthreads();  // @others
}

__global__ void grid_generation(Barrier* barrier, int* out) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = threadIdx.x;
  meet(barrier);  // @meet
  out[threadIdx.x] = tile[threadIdx.x];
}

int main() {
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int memory = int(device.sharedMemPerMultiprocessor / 2 - device.reservedSharedMemPerBlock);  // two blocks on each
  cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
  check(cudaFuncSetAttribute(grid_generation, most, memory), "cudaFuncSetAttribute");
  dim3 blocks(2, device.multiProcessorCount + 168);
  grid_generation<<<blocks, 64, memory>>>(zeroed<Barrier>(1), zeroed<int>(64));
  return finish();
}
