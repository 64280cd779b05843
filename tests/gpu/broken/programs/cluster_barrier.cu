// Block 0 of a cluster waits at the cluster's barrier; block 1 never arrives, it spins on a flag.
#include <cooperative_groups.h>
#include "check.cuh"
namespace cg = cooperative_groups;

__device__ __forceinline__ void spin(const volatile int* flag) {
  while (*flag == 0) {}  // @spin
}

__global__ void __cluster_dims__(2, 1, 1) cluster_barrier(const int* flag, int* out) {
  cg::cluster_group cluster = cg::this_cluster();
  if (cluster.block_rank() == 1) spin(flag);  // @late
  cluster.sync();  // @sync
  out[threadIdx.x] = 1;
}

int main() {
  cluster_barrier<<<2, 32>>>(zeroed<int>(1), zeroed<int>(32));
  return finish();
}
