// A barrier of the whole grid, counted in global memory, in a grid of 100 blocks more than fit: those never start.
#include "check.cuh"

struct GridBarrier {
  volatile unsigned* arrived;
  __device__ __forceinline__ void wait() {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(const_cast<unsigned*>(arrived), 1);
      while (*arrived < gridDim.x) {}  // @spin
    }
    __syncthreads();  // @others
  }
};

__global__ void grid_barrier(unsigned* arrived, int* out) {
  GridBarrier{arrived}.wait();  // @wait
  out[threadIdx.x] = 1;
}

int main() {
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  size_t memory = device.sharedMemPerBlockOptin;  // all of it: one block on each multiprocessor
  cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
  check(cudaFuncSetAttribute(grid_barrier, most, int(memory)), "cudaFuncSetAttribute");
  grid_barrier<<<device.multiProcessorCount + 100, 32, memory>>>(zeroed<unsigned>(1), zeroed<int>(32));
  return finish();
}
