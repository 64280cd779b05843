// Copies and fills in many ways. Prints, for each, a line "KIND SOURCE DESTINATION" (memcpy or memset, then
// addresses in hexadecimal, 0 for what no one can know), in the order in which the device does them.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(call) check(static_cast<int>(call), #call)

namespace {

void check(int code, const char* call) {
  if (code != 0) fprintf(stderr, "%s: %d\n", call, code), exit(1);
}

__device__ int g_symbol[64];
char *g_one, *g_two, *g_host, *g_pitched;
size_t g_pitch;

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

void told(const char* kind, const void* source, const void* destination) {
  printf("%s %llx %llx\n", kind, static_cast<unsigned long long>(number(source)),
         static_cast<unsigned long long>(number(destination)));
}

void copy(const void* source, const void* destination) { told("memcpy", source, destination); }
void set(const void* destination) { told("memset", nullptr, destination); }
void wait() { CHECK(cudaDeviceSynchronize()); }

void plain(cudaStream_t stream) {
  CHECK(cudaMemcpy(g_one, g_host, 4096, cudaMemcpyHostToDevice)), copy(g_host, g_one);
  CHECK(cudaMemcpyAsync(g_host + 64, g_two, 4096, cudaMemcpyDeviceToHost, stream)), copy(g_two, g_host + 64),
      wait();
  CHECK(cudaMemcpyAsync(g_two, g_one, 4096, cudaMemcpyDeviceToDevice, stream)), copy(g_one, g_two), wait();
  CHECK(cudaMemset(g_one, 1, 4096)), set(g_one), wait();
  CHECK(cudaMemsetAsync(g_two + 128, 1, 4096, stream)), set(g_two + 128), wait();
  CHECK(cuMemcpyDtoD(reinterpret_cast<CUdeviceptr>(g_two), reinterpret_cast<CUdeviceptr>(g_one), 512)),
      copy(g_one, g_two), wait();
  CHECK(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(g_one), g_host, 512, stream)), copy(g_host, g_one),
      wait();
  CHECK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(g_one), 7, 64, stream)), set(g_one), wait();
}

void shaped() {
  CHECK(cudaMemcpy2D(g_pitched, g_pitch, g_host, 128, 128, 8, cudaMemcpyHostToDevice)),
      copy(g_host, g_pitched), wait();
  CHECK(cudaMemset2D(g_pitched, g_pitch, 0, 128, 8)), set(g_pitched), wait();
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(g_pitched, g_pitch, 128, 8);
  box.srcPos = make_cudaPos(16, 2, 0);
  box.dstPtr = make_cudaPitchedPtr(g_one, 128, 128, 8);
  box.extent = make_cudaExtent(64, 4, 1);
  box.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3D(&box)), copy(g_pitched + 16 + 2 * g_pitch, g_one), wait();
  void* symbol = nullptr;
  CHECK(cudaGetSymbolAddress(&symbol, g_symbol));
  CHECK(cudaMemcpyToSymbol(g_symbol, g_host, sizeof g_symbol)), copy(g_host, symbol), wait();
  CHECK(cudaMemcpyFromSymbol(g_host, g_symbol, sizeof g_symbol)), copy(symbol, g_host), wait();
}

void replay(cudaGraphExec_t graph, cudaStream_t stream) {
  CHECK(cudaGraphLaunch(graph, stream));
  wait();
}

void captured(cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(g_two, g_one, 2048, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaMemsetAsync(g_one, 3, 2048, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) replay(executable, stream), copy(g_one, g_two), set(g_one);
}

void added(cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t copying, filling;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemcpyNode1D(&copying, graph, nullptr, 0, g_one, g_host, 1024, cudaMemcpyHostToDevice));
  cudaMemsetParams fill = {};
  fill.dst = g_two;
  fill.elementSize = 1;
  fill.width = 1024;
  fill.height = 1;
  CHECK(cudaGraphAddMemsetNode(&filling, graph, &copying, 1, &fill));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  replay(executable, stream), copy(g_host, g_one), set(g_two);
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(executable, copying, g_one + 4096, g_host + 4096, 1024,
                                           cudaMemcpyHostToDevice));
  replay(executable, stream), copy(g_host + 4096, g_one + 4096), set(g_two);
}

}  // namespace

int main() {
  CHECK(cudaMalloc(&g_one, 1 << 16));
  CHECK(cudaMalloc(&g_two, 1 << 16));
  CHECK(cudaMallocHost(&g_host, 1 << 16));
  CHECK(cudaMallocPitch(&g_pitched, &g_pitch, 128, 8));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  plain(stream);
  shaped();
  captured(stream);
  added(stream);
  wait();
  return 0;
}
