// A graph that a kernel launches on the device, beside a graph that the host launches; built with -rdc=true
// -lcudadevrt.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                  \
  do {                                                               \
    const cudaError_t error = (call);                                \
    if (error != cudaSuccess) {                                      \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
      exit(1);                                                       \
    }                                                                \
  } while (0)

__global__ void add(float* x) { x[threadIdx.x] += 1; }
__global__ void launches(cudaGraphExec_t graph) { cudaGraphLaunch(graph, cudaStreamGraphFireAndForget); }

int main() {
  float* x = nullptr;
  CHECK(cudaMalloc(&x, 4096));
  CHECK(cudaMemset(x, 0, 4096));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const auto captured = [&](auto work, unsigned flags) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    work();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, flags));
    return exec;
  };
  const cudaGraphExec_t inner =
      captured([&] { add<<<1, 32, 0, stream>>>(x); }, cudaGraphInstantiateFlagDeviceLaunch);
  const cudaGraphExec_t outer = captured([&] { launches<<<1, 1, 0, stream>>>(inner); }, 0);
  CHECK(cudaGraphUpload(inner, stream));
  for (int i = 0; i < 3; ++i) {
    CHECK(cudaGraphLaunch(outer, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  float first = 0;
  CHECK(cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost));
  printf("%g\n", first);
}
