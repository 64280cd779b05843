// A ring like a collective's: each block waits for its left neighbor's data; block 3 dropped out without sending.
#include "check.cuh"

struct Connection {
  volatile unsigned long long head, tail;
};

struct Primitives {
  Connection* left;
  Connection* right;
  __device__ __forceinline__ void wait_peer(unsigned long long step) {
    while (left->tail < step) {}  // @spin
  }
  __device__ __forceinline__ void post(unsigned long long step) { right->tail = step; }
  __device__ __forceinline__ void receive_and_send(unsigned long long step) {
    wait_peer(step);  // @wait
    if (blockIdx.x != 2) post(step);
  }
};

__device__ __forceinline__ void run_ring(Primitives& primitives, int steps) {
  for (int step = 1; step <= steps; ++step) primitives.receive_and_send(step);  // @step
}

__global__ void ncclDevKernel_AllReduce_Sum_f32_RING_LL(Connection* ring, int steps) {
  int last = gridDim.x - 1;
  Primitives primitives{ring + blockIdx.x, ring + (blockIdx.x == last ? 0 : blockIdx.x + 1)};
  if (threadIdx.x == 0 && blockIdx.x != 3) run_ring(primitives, steps);  // @run
  __syncthreads();  // @others
}

int main() {
  Connection* ring = zeroed<Connection>(8);
  ncclDevKernel_AllReduce_Sum_f32_RING_LL<<<8, 64>>>(ring, 4);
  return finish();
}
