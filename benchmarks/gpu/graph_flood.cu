// Millions of graph-node kernels: does recording stay bounded? Prints one JSON line: kernels, seconds, host
// latency of a graph launch (median and p99.9, microseconds), device memory in use at the end (bytes, whole
// device) and the process's peak resident memory (bytes). Usage: graph_flood [kernels=30000000] [nodes=1000]
// [queue=4] `queue` launches are made between two synchronizations: with 1 no launch waits for the GPU, and
// the latency is the host's own part of a launch; with more it contains the wait for room in the launch
// queue.
#include <cuda_runtime.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void node(int* out) {
  if (out != nullptr) *out = 1;
}

static cudaGraphExec_t capture(cudaStream_t stream, int nodes) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < nodes; ++i) node<<<1, 32, 0, stream>>>(nullptr);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  return executable;
}

int main(int argc, char** argv) {
  using clock = std::chrono::steady_clock;
  const long kernels = argc > 1 ? std::atol(argv[1]) : 30000000;
  const int nodes = argc > 2 ? std::atoi(argv[2]) : 1000;
  const size_t queue = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 4;
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 1;
  cudaGraphExec_t graph = capture(stream, nodes);
  if (graph == nullptr) return 1;
  std::vector<double> latency;
  latency.reserve(kernels / nodes + 1);
  const auto start = clock::now();
  for (long done = 0; done < kernels; done += nodes) {
    const auto before = clock::now();
    if (cudaGraphLaunch(graph, stream) != cudaSuccess) return 1;
    latency.push_back(std::chrono::duration<double, std::micro>(clock::now() - before).count());
    if (latency.size() % queue == 0) cudaStreamSynchronize(stream);
  }
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  const double seconds = std::chrono::duration<double>(clock::now() - start).count();
  std::sort(latency.begin(), latency.end());
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"kernels\": %zu, \"seconds\": %.3f, \"median_us\": %.2f, \"p999_us\": %.2f, \"device_bytes\": %zu, "
      "\"peak_rss_bytes\": %ld}\n",
      latency.size() * nodes, seconds, latency[latency.size() / 2], latency[latency.size() * 999 / 1000],
      total_bytes - free_bytes, usage.ru_maxrss * 1024L);
  return 0;
}
