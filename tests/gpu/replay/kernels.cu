// Kernels of the capsules that make_capsules.py makes: deterministic and not, with clusters, a tensor map and
// globals.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;

__device__ float* kept;  // a pointer in a module's variable
__constant__ float factor = 3;

extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = a * x[i] + y[i];
}

// Sums in the order in which the blocks come: another one in each run.
extern "C" __global__ void atomic_sum(float* y, const float* x, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&y[i % 7], a * x[i]);
}

extern "C" __global__ void through_globals(float* y, float* const* pointer, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = kept[i] * factor + a + *pointer[0];
}

extern "C" __global__ void clusters(float* y, const float* x, float a, int n) {
  __shared__ float first;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) first = x[blockIdx.x];
  cluster.sync();
  const float other = *cluster.map_shared_rank(&first, cluster.block_rank() ^ 1);
  cluster.sync();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = other * a;
}

extern "C" __global__ void cooperative(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * a;
  cg::this_grid().sync();
  if (i < n) y[i] += y[n - 1 - i] * 0 + x[n - 1 - i];
}

// Copies a tile of 32 x 8 floats that the tensor map names.
extern "C" __global__ void tensor(float* y, const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) float tile[8][32];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::experimental::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, blockIdx.x * 32, 0,
                                                                         barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof(tile));
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  y[blockIdx.x * 256 + threadIdx.x] = tile[threadIdx.x / 32][threadIdx.x % 32];
}

// Reads one element behind its input.
extern "C" __global__ void reads_beyond(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i + 1] * a;
}
