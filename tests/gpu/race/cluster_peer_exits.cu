// Block 0 reads the shared memory of the other block of its cluster, which may have ended by then.
#include <cooperative_groups.h>

#include "trials.h"

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) cluster_peer_exits(int* out, int number) {
  __shared__ int tile[32];
  cg::cluster_group cluster = cg::this_cluster();
  tile[threadIdx.x] = number + threadIdx.x + 100 * cluster.block_rank();
  cluster.sync();
  if (cluster.block_rank() == 0) {
    const int* other = cluster.map_shared_rank(tile, 1);
    out[threadIdx.x] = other[31 - threadIdx.x];
  } else {
    work(2000);
  }
  if (kFixed) cluster.sync();
}

int main(int argc, char** argv) {
  return trials(
      argc, argv, 32, [](int* words, int number) { cluster_peer_exits<<<2, 32>>>(words, number); },
      [](int number, int i) { return number + 31 - i + 100; });
}
