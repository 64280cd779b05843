// Kernels with a planted race, each beside its repaired twin, in a module whose checks can be compiled in: it
// has PTX, and none of its loops waits for other threads.
#include <cuda_pipeline.h>

#include <cstdio>

template <bool fixed>
__global__ void tile_race(int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = threadIdx.x;
  if (fixed) __syncthreads();
  out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}

// The barrier at the loop's end is missing: the next pass overwrites what others still read.
template <bool fixed>
__global__ void loop_race(int* out) {
  __shared__ int tile[128];
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = threadIdx.x + i;
    __syncthreads();
    sum += tile[127 - threadIdx.x];
    if (fixed) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

template <bool fixed>
__global__ void warp_race(volatile int* out) {
  __shared__ volatile int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  if (fixed) __syncwarp();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

// Warp 0 produces, warp 1 consumes, through named barrier 1.
template <bool fixed>
__global__ void named_race(int* out) {
  __shared__ int tile[64];
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = threadIdx.x;
    if (fixed) asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else {
    if (fixed) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = tile[63 - threadIdx.x];
  }
}

template <bool fixed>
__global__ void scope_race(int* counter) {
  fixed ? atomicAdd(counter, 1) : atomicAdd_block(counter, 1);
}

template <bool fixed>
__global__ void blocks_race(int* out) {
  out[(fixed ? blockIdx.x * blockDim.x : 0) + threadIdx.x] = blockIdx.x;
}

// Of 16 bytes that a lane stores, its neighbor loads four: whole lines on one side, single words on the
// other.
template <bool fixed>
__global__ void wide_race(int4* out, int* sums) {
  out[threadIdx.x] = make_int4(1, 2, 3, threadIdx.x);
  if (fixed) __syncthreads();
  sums[threadIdx.x] = reinterpret_cast<int*>(out)[4 * ((threadIdx.x + 32) % 64) + 1];
}

template <bool fixed>
__global__ void bytes_race(char* out) {
  out[fixed ? blockIdx.x * 64 + threadIdx.x : threadIdx.x] = blockIdx.x;
}

template <bool fixed>
__global__ void copy_race(const int4* in, int4* out) {
  __shared__ int4 tile[64];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
  __pipeline_commit();
  if (fixed) __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

// Which memory an address is in, only the device knows.
__device__ __noinline__ void put(int* at, int value) { *at = value; }
template <bool fixed>
__global__ void generic_race(int* out) {
  __shared__ int tile[64];
  put(threadIdx.x % 2 ? tile + threadIdx.x : out + threadIdx.x, threadIdx.x);
  if (fixed) __syncthreads();
  out[64 + threadIdx.x] = threadIdx.x % 2 ? tile[(threadIdx.x + 32) % 64] : out[(threadIdx.x + 32) % 64];
}

template <bool fixed>
void launch(int* words) {
  int* next = words;
  const auto room = [&] { return next += 4096; };
  tile_race<fixed><<<4, 128>>>(room());
  loop_race<fixed><<<1, 128>>>(room());
  warp_race<fixed><<<1, 32>>>(room());
  named_race<fixed><<<1, 64>>>(room());
  scope_race<fixed><<<2, 32>>>(room());
  blocks_race<fixed><<<2, 64>>>(room());
  int* wide = room();
  wide_race<fixed><<<1, 64>>>(reinterpret_cast<int4*>(wide), room());
  bytes_race<fixed><<<2, 64>>>(reinterpret_cast<char*>(room()));
  int* copied = room();
  copy_race<fixed><<<1, 64>>>(reinterpret_cast<int4*>(copied), reinterpret_cast<int4*>(room()));
  generic_race<fixed><<<1, 64>>>(room());
}

// The same kernels as nodes of a graph, which runs twice.
int main() {
  int* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  cudaMemset(memory, 0, 1 << 20);
  launch<false>(memory);
  launch<true>(memory + (1 << 16));
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaGraph_t graph;
  cudaGraphExec_t twice;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  blocks_race<false><<<2, 128, 0, stream>>>(memory);
  blocks_race<true><<<2, 128, 0, stream>>>(memory + 4096);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&twice, graph, 0);
  for (int i = 0; i < 2; ++i) cudaGraphLaunch(twice, stream);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
