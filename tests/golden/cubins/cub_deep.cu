#include <cub/cub.cuh>
template <class T>
__global__ void block_sum(const T* in, T* out) {
  using Reduce = cub::BlockReduce<T, 128>;
  __shared__ typename Reduce::TempStorage storage;
  T value = Reduce(storage).Sum(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}
template <class T>
__global__ void block_sort(T* keys) {
  using Sort = cub::BlockRadixSort<T, 64, 2>;
  __shared__ typename Sort::TempStorage storage;
  T mine[2] = {keys[2 * threadIdx.x], keys[2 * threadIdx.x + 1]};
  Sort(storage).Sort(mine);
  keys[2 * threadIdx.x] = mine[0];
  keys[2 * threadIdx.x + 1] = mine[1];
}
template __global__ void block_sum<float>(const float*, float*);
template __global__ void block_sort<unsigned>(unsigned*);
