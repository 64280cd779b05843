// The last block of a cooperative grid returns; the others wait for it at the barrier of the grid. It has not failed to start.
#include <cooperative_groups.h>
#include "check.cuh"
namespace cg = cooperative_groups;

__global__ void grid_sync_exit(int* out) {
  if (blockIdx.x == gridDim.x - 1) return;
  cg::this_grid().sync();  // @sync
  out[threadIdx.x] = 1;
}

int main() {
  int* out = zeroed<int>(64);
  void* arguments[] = {&out};
  auto kernel = reinterpret_cast<const void*>(grid_sync_exit);
  check(cudaLaunchCooperativeKernel(kernel, 6, 64, arguments), "cudaLaunchCooperativeKernel");
  return finish();
}
