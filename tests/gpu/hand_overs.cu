// Words handed over by flags and locks: what is missing is on the line with the comment, the others lack
// nothing.
#include <cstdio>

__device__ int flags[8], locks[1];

__device__ void wait_for(int* flag) {
  while (atomicAdd(flag, 0) == 0) {
  }
}

__device__ void lock() {
  while (atomicCAS(locks, 0, 1) != 0) {
  }
  __threadfence();
}

__device__ void unlock() {
  __threadfence();
  atomicExch(locks, 0);
}

__global__ void one_side_locks(int* data) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    lock();
    data[0] = 1;
    unlock();
  } else {
    data[0] = 2;  // no lock
  }
}

__global__ void both_sides_lock(int* data) {
  if (threadIdx.x != 0) return;
  lock();
  data[0] += 1;
  unlock();
}

__global__ void plain_beside_atomic(int* data) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    atomicExch(data, 1);
  } else {
    data[0] = 2;  // not atomic
  }
}

__global__ void unfenced_flag(int* data) {
  if (threadIdx.x == 0) {
    data[0] = 1;  // no fence behind
    atomicExch_block(&flags[0], 1);
  } else if (threadIdx.x == 32) {
    while (atomicAdd_block(&flags[0], 0) == 0) {
    }
    data[1] = data[0];
  }
}

__global__ void fenced_flag(int* data) {
  if (threadIdx.x == 0) {
    data[0] = 1;
    __threadfence_block();
    atomicExch_block(&flags[1], 1);
  } else if (threadIdx.x == 32) {
    while (atomicAdd_block(&flags[1], 0) == 0) {
    }
    data[1] = data[0];
  }
}

__global__ void fence_of_the_block(int* data) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence_block();  // too narrow
    atomicExch(&flags[2], 1);
  } else {
    wait_for(&flags[2]);
    __threadfence();
    data[1] = data[0];
  }
}

__global__ void fence_of_the_device(int* data) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    atomicExch(&flags[3], 1);
  } else {
    wait_for(&flags[3]);
    __threadfence();
    data[1] = data[0];
  }
}

__global__ void volatile_flag(int* data) {
  volatile int* const flag = &flags[4];
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    __threadfence();
    data[1] = data[0];
  }
}

int main() {
  int* data = nullptr;
  cudaMalloc(&data, 8 * sizeof(int));
  one_side_locks<<<2, 32>>>(data);
  both_sides_lock<<<2, 32>>>(data);
  plain_beside_atomic<<<2, 32>>>(data);
  unfenced_flag<<<1, 64>>>(data);
  fenced_flag<<<1, 64>>>(data);
  fence_of_the_block<<<2, 32>>>(data);
  fence_of_the_device<<<2, 32>>>(data);
  volatile_flag<<<2, 32>>>(data);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
