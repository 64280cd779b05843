// Sorts 50,000 keys with CUB and adds them up; the work is in the NVTX range "cut".
#include <nvtx3/nvToolsExt.h>
#include <cub/cub.cuh>

int main() {
  constexpr int count = 50000;
  unsigned *keys, *sorted, *sum;
  cudaMalloc(&keys, count * sizeof(unsigned));
  cudaMalloc(&sorted, count * sizeof(unsigned));
  cudaMalloc(&sum, sizeof(unsigned));
  unsigned* host = new unsigned[count];
  for (unsigned i = 0; i < count; ++i) host[i] = i * 2654435761u;
  cudaMemcpy(keys, host, count * sizeof(unsigned), cudaMemcpyHostToDevice);
  size_t for_sort = 0, for_sum = 0;
  cub::DeviceRadixSort::SortKeys(nullptr, for_sort, keys, sorted, count);
  cub::DeviceReduce::Sum(nullptr, for_sum, sorted, sum, count);
  void* scratch;
  cudaMalloc(&scratch, for_sort > for_sum ? for_sort : for_sum);
  for (int round = 0; round < 2; ++round) {
    if (round) nvtxRangePushA("cut");
    cub::DeviceRadixSort::SortKeys(scratch, for_sort, keys, sorted, count);
    cub::DeviceReduce::Sum(scratch, for_sum, sorted, sum, count);
    if (round) nvtxRangePop();
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
