// Doubles a matrix that the tensor copy engine reads through a tensor map in the kernel's parameters.
// tests/golden/capsules/tma.capsule is its launch.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cuda/barrier>

using Barrier = cuda::barrier<cuda::thread_scope_block>;
namespace copies = cuda::device::experimental;
constexpr int kRows = 256, kColumns = 32, kBox = 16;

__global__ void tma_double(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float tile[kBox][kColumns];
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    copies::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    copies::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, 0, blockIdx.x * kBox, barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof tile);
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  for (int i = threadIdx.x; i < kBox * kColumns; i += blockDim.x)
    out[blockIdx.x * kBox * kColumns + i] = 2 * tile[i / kColumns][i % kColumns];
}

int main() {
  static float values[kRows * kColumns];
  float *in, *out;
  for (int i = 0; i < kRows * kColumns; ++i) values[i] = static_cast<float>(i);
  cudaMalloc(&in, sizeof values);
  cudaMalloc(&out, sizeof values);
  cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  CUtensorMap map;
  const cuuint64_t dimensions[] = {kColumns, kRows}, strides[] = {kColumns * sizeof(float)};
  const cuuint32_t box[] = {kColumns, kBox}, steps[] = {1, 1};
  const CUresult encoded = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, in, dimensions, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (encoded != CUDA_SUCCESS) return 3;
  tma_double<<<kRows / kBox, 128>>>(map, out);
  return cudaDeviceSynchronize();
}
