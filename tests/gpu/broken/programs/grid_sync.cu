// Block 2 of a cooperative grid spins on a flag that nobody sets; the others wait for it at the barrier of the grid.
#include <cooperative_groups.h>
#include "check.cuh"
namespace cg = cooperative_groups;

__device__ __forceinline__ void spin(const volatile int* flag) {
  while (*flag == 0) {}  // @spin
}

__global__ void grid_sync(const int* flag, int* out) {
  if (blockIdx.x == 2) spin(flag);  // @late
  cg::this_grid().sync();  // @sync
  out[threadIdx.x] = 1;
}

int main() {
  const int* flag = zeroed<int>(1);
  int* out = zeroed<int>(64);
  void* arguments[] = {&flag, &out};
  auto kernel = reinterpret_cast<const void*>(grid_sync);
  check(cudaLaunchCooperativeKernel(kernel, 4, 64, arguments), "cudaLaunchCooperativeKernel");
  return finish();
}
