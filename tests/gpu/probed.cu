// Launches whose probes have known answers, by what the argument says of how they are launched and waited
// for.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                \
  if (cudaError_t error = (call); error != cudaSuccess) {          \
    fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
    return 1;                                                      \
  }

__device__ __noinline__ float twice(const float* a, int i) { return i % 3 == 0 ? a[i] * 2 : 0.0f; }

// Lanes 1 and 2 of three load nothing; a third of the others stores a NaN or an infinity.
__global__ void divergent(const float* a, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = twice(a, i);
  if (i % 9 == 0) value = i % 2 ? __int_as_float(0x7fc00000) : __int_as_float(0x7f800000);
  c[i] = value;
}

__global__ void copy(const float* a, float* c) {
  c[blockIdx.x * blockDim.x + threadIdx.x] = a[blockIdx.x * blockDim.x + threadIdx.x];
}

// Every thread loads a value again that it has loaded, from memory that the compiler must ask again.
__global__ void again(const volatile float* a, float* c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + a[i] + a[i];
}

__global__ void waits(unsigned* out) {
  const long long begin = clock64();
  if (threadIdx.x < 32)
    while (clock64() - begin < 2000000) {
    }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = clock64() == begin;
}

__global__ void forever(volatile float* a) {
  while (a[0] != 1e30f) {
  }
}

__global__ void faulty(const float* a) { *const_cast<float*>(a + threadIdx.x) = 1; }

constexpr int kBlocks = 40, kThreads = 128, kCount = kBlocks * kThreads;

int graph(const float* a, float* c, cudaStream_t stream) {
  cudaGraph_t made;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  copy<<<kBlocks, kThreads, 0, stream>>>(a, c);
  waits<<<1, 64, 0, stream>>>(reinterpret_cast<unsigned*>(c));
  again<<<kBlocks, kThreads, 0, stream>>>(a, c);
  copy<<<kBlocks, kThreads, 0, stream>>>(a, c);
  CHECK(cudaStreamEndCapture(stream, &made));
  CHECK(cudaGraphInstantiate(&ready, made, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
  return 0;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "plain";
  float *a = nullptr, *c = nullptr;
  CHECK(cudaMalloc(&a, kCount * sizeof(float)));
  CHECK(cudaMalloc(&c, kCount * sizeof(float)));
  float values[kCount];
  for (int i = 0; i < kCount; ++i) values[i] = 0.5f * i - 100;
  CHECK(cudaMemcpy(a, values, sizeof values, cudaMemcpyHostToDevice));
  cudaStream_t streams[4];
  for (auto& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (strcmp(how, "graph") == 0) return graph(a, c, streams[0]);
  if (strcmp(how, "streams") == 0) {
    for (int i = 0; i < 400; ++i) copy<<<kBlocks, kThreads, 0, streams[i % 4]>>>(a, c);
    CHECK(cudaStreamSynchronize(streams[1]));
    CHECK(cudaStreamDestroy(streams[2]));
    return 0;  // the others are not waited for
  }
  if (strcmp(how, "forever") == 0) {
    copy<<<kBlocks, kThreads, 0, streams[0]>>>(a, c);
    CHECK(cudaStreamSynchronize(streams[0]));
    forever<<<1, 32, 0, streams[1]>>>(a);
    printf("launched\n");
    fflush(stdout);
    return 0;
  }
  divergent<<<kBlocks, kThreads>>>(a, c, kCount - 50);
  again<<<kBlocks, kThreads>>>(a, c);
  if (strcmp(how, "fault") == 0) {
    CHECK(cudaDeviceSynchronize());
    faulty<<<1, 32>>>(nullptr);
    CHECK(cudaDeviceSynchronize());
  }
  waits<<<kBlocks, kThreads>>>(reinterpret_cast<unsigned*>(c));
  CHECK(cudaDeviceSynchronize());
  return 0;
}
