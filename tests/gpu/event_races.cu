// Kernels with a planted race, each beside its repaired twin.
#include <cstdio>

__global__ void shared_race(int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = threadIdx.x;
  out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}

__global__ void shared_fixed(int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}

// The barrier at the loop's end is missing: the next pass overwrites what others still read.
__global__ void loop_race(int* out) {
  __shared__ int tile[128];
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = threadIdx.x + i;
    __syncthreads();
    sum += tile[127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

__global__ void loop_fixed(int* out) {
  __shared__ int tile[128];
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = threadIdx.x + i;
    __syncthreads();
    sum += tile[127 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

__global__ void warp_race(volatile int* out) {
  __shared__ volatile int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

__global__ void warp_fixed(volatile int* out) {
  __shared__ volatile int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

// Warp 0 produces, warp 1 consumes, through named barrier 1.
__global__ void named_fixed(int* out) {
  __shared__ int tile[64];
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = threadIdx.x;
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = tile[63 - threadIdx.x];
  }
}

// Block 0 hands data to block 1 through a flag; without the fence nothing orders the two.
__global__ void flag_race(int* data, int* flag, int* out) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 42;
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) __nanosleep(100);
    out[0] = *(volatile int*)data;
  }
}

__global__ void flag_fixed(int* data, int* flag, int* out) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 42;
    __threadfence();
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) __nanosleep(100);
    __threadfence();
    out[0] = *(volatile int*)data;
  }
}

__global__ void scope_race(int* counter) { atomicAdd_block(counter, 1); }

__global__ void scope_fixed(int* counter) { atomicAdd(counter, 1); }

__global__ void global_race(int* out) { out[threadIdx.x] = blockIdx.x; }

__global__ void global_fixed(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x; }

int main() {
  int* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  cudaMemset(memory, 0, 1 << 20);
  int* flag = memory + 4096;
  shared_race<<<2, 128>>>(memory);
  shared_fixed<<<2, 128>>>(memory);
  loop_race<<<1, 128>>>(memory);
  loop_fixed<<<1, 128>>>(memory);
  warp_race<<<1, 32>>>(memory);
  warp_fixed<<<1, 32>>>(memory);
  named_fixed<<<1, 64>>>(memory);
  flag_race<<<2, 32>>>(memory + 8192, flag, memory);
  flag_fixed<<<2, 32>>>(memory + 8192, flag + 32, memory);
  scope_race<<<2, 32>>>(memory);
  scope_fixed<<<2, 32>>>(memory);
  global_race<<<2, 64>>>(memory);
  global_fixed<<<2, 64>>>(memory);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
