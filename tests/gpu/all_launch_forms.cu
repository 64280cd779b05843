// Every launch form, copies, sets, events, streams, a second context and both kinds of CUDA graph, each a
// known number of times; prints what it did, one "name count" per line, for compare_launch_forms.py. Build:
// nvcc -o all_launch_forms all_launch_forms.cu -lcuda ; usage: all_launch_forms [ROUNDS=50]
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace {

#define KERNEL(name) \
  __global__ void name(int* out) { atomicAdd(out, 1); }
KERNEL(by_runtime)
KERNEL(by_runtime_ex)
KERNEL(by_driver)
KERNEL(by_driver_ex)
KERNEL(by_capture)
KERNEL(by_explicit_node)
KERNEL(by_second_context)
__global__ void by_cooperative(int* out) {
  cooperative_groups::this_grid().sync();
  atomicAdd(out, 1);
}
__global__ void by_driver_cooperative(int* out) {
  cooperative_groups::this_grid().sync();
  atomicAdd(out, 1);
}

std::map<std::string, long> g_done;

void check(int code, const char* what) {
  if (code == 0) return;
  fprintf(stderr, "%s failed with %d\n", what, code);
  exit(1);
}
#define CHECK(call) check(static_cast<int>(call), #call)

CUfunction driver_function(const void* symbol) {
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, symbol));
  return reinterpret_cast<CUfunction>(function);
}

template <class Kernel>
const void* symbol_of(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

void launch_in_every_form(int* counter, cudaStream_t stream) {
  void* arguments[] = {&counter};
  by_runtime<<<2, 32, 0, stream>>>(counter);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(64);
  config.stream = stream;
  CHECK(cudaLaunchKernelExC(&config, symbol_of(by_runtime_ex), arguments));
  CHECK(cudaLaunchCooperativeKernel(symbol_of(by_cooperative), dim3(2), dim3(32), arguments, 0, stream));
  const auto cu_stream = reinterpret_cast<CUstream>(stream);
  CHECK(cuLaunchKernel(driver_function(symbol_of(by_driver)), 1, 2, 3, 32, 1, 1, 0, cu_stream, arguments,
                       nullptr));
  CUlaunchConfig driver_config = {};
  driver_config.gridDimX = driver_config.gridDimY = driver_config.gridDimZ = 1;
  driver_config.blockDimX = 96, driver_config.blockDimY = driver_config.blockDimZ = 1;
  driver_config.hStream = cu_stream;
  CHECK(cuLaunchKernelEx(&driver_config, driver_function(symbol_of(by_driver_ex)), arguments, nullptr));
  CHECK(cuLaunchCooperativeKernel(driver_function(symbol_of(by_driver_cooperative)), 2, 1, 1, 32, 1, 1, 0,
                                  cu_stream, arguments));
  for (const char* name : {"by_runtime", "by_runtime_ex", "by_cooperative", "by_driver", "by_driver_ex",
                           "by_driver_cooperative"}) {
    ++g_done[name];
  }
}

cudaGraphExec_t captured_graph(int* counter, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 3; ++i) by_capture<<<1, 32, 0, stream>>>(counter);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return executable;
}

cudaGraphExec_t explicit_graph(int* counter) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  void* arguments[] = {&counter};
  cudaKernelNodeParams kernel = {};
  kernel.func = const_cast<void*>(symbol_of(by_explicit_node));
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = arguments;
  cudaGraphNode_t first, second;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &kernel));
  CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &kernel));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return executable;
}

void graphs(int* counter, cudaStream_t stream, int rounds) {
  cudaGraphExec_t captured = captured_graph(counter, stream), made = explicit_graph(counter);
  for (int i = 0; i < rounds; ++i) {
    CHECK(cudaGraphLaunch(captured, stream));
    CHECK(cudaGraphLaunch(made, stream));
    g_done["by_capture"] += 3;
    g_done["by_explicit_node"] += 2;
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(captured));
  CHECK(cudaGraphExecDestroy(made));
}

void move_memory(int* device, cudaStream_t stream) {
  static int host[256];
  CHECK(cudaMemcpy(device + 256, host, sizeof host, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyAsync(host, device + 256, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemsetAsync(device + 256, 1, sizeof host, stream));
  g_done["memcpy"] += 2;
  g_done["memset"] += 1;
}

void order_streams(cudaStream_t first, cudaStream_t second, cudaEvent_t event) {
  CHECK(cudaEventRecord(event, first));
  CHECK(cudaStreamWaitEvent(second, event, 0));
  ++g_done["event"];
}

void second_context(int rounds) {
  CUcontext before, context;
  CUdevice device;
  CHECK(cuCtxGetCurrent(&before));
  CHECK(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
  CHECK(cuCtxCreate(&context, nullptr, 0, device));
#else
  CHECK(cuCtxCreate(&context, 0, device));
#endif
  int* counter;
  CHECK(cudaMalloc(&counter, sizeof(int)));
  for (int i = 0; i < rounds; ++i) {
    by_second_context<<<1, 32>>>(counter);
    ++g_done["by_second_context"];
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cuCtxDestroy(context));
  CHECK(cuCtxSetCurrent(before));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 50;
  int* counter;
  cudaStream_t streams[2];
  cudaEvent_t event;
  CHECK(cudaMalloc(&counter, 1 << 20));
  for (auto& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < rounds; ++i) {
    launch_in_every_form(counter, streams[i % 2]);
    move_memory(counter, streams[i % 2]);
    order_streams(streams[i % 2], streams[(i + 1) % 2], event);
  }
  graphs(counter, streams[0], rounds);
  CHECK(cudaDeviceSynchronize());
  second_context(rounds);
  CHECK(cudaDeviceSynchronize());
  for (const auto& entry : g_done) printf("%s %ld\n", entry.first.c_str(), entry.second);
  return 0;
}
