// Every way a program can launch a kernel, behind one C function, so that a Python program can call each of
// them from known stacks. Build: nvcc -shared -Xcompiler -fPIC -cudart shared -o liblaunch_forms.so
// launch_forms.cu -lcuda
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <mutex>

namespace {

__global__ void form_runtime(int* out) { atomicAdd(out, 1); }
__global__ void form_runtime_ex(int* out) { atomicAdd(out, 1); }
__global__ void form_cooperative(int* out) {
  cooperative_groups::this_grid().sync();
  atomicAdd(out, 1);
}
__global__ void form_driver(int* out) { atomicAdd(out, 1); }
__global__ void form_driver_ex(int* out) { atomicAdd(out, 1); }
__global__ void form_driver_cooperative(int* out) {
  cooperative_groups::this_grid().sync();
  atomicAdd(out, 1);
}
__global__ void form_graph(int* out) { atomicAdd(out, 1); }

struct Resources {
  int* counter = nullptr;
  cudaGraphExec_t graph = nullptr;
};
Resources g_resources;

CUfunction driver_function(const void* symbol) {
  cudaFunction_t function = nullptr;
  cudaGetFuncBySymbol(&function, symbol);
  return reinterpret_cast<CUfunction>(function);
}

int make_graph() {
  cudaGraph_t graph;
  if (cudaGraphCreate(&graph, 0) != cudaSuccess) return 1;
  void* arguments[] = {&g_resources.counter};
  cudaKernelNodeParams parameters = {};
  parameters.func = reinterpret_cast<void*>(form_graph);
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
  cudaGraphNode_t first, second;
  if (cudaGraphAddKernelNode(&first, graph, nullptr, 0, &parameters) != cudaSuccess) return 2;
  if (cudaGraphAddKernelNode(&second, graph, &first, 1, &parameters) != cudaSuccess) return 3;
  if (cudaGraphInstantiate(&g_resources.graph, graph, 0) != cudaSuccess) return 4;
  return cudaGraphDestroy(graph) == cudaSuccess ? 0 : 5;
}

int driver_ex(CUfunction function, CUstream stream, void** arguments) {
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  return cuLaunchKernelEx(&config, function, arguments, nullptr);
}

int runtime_ex(cudaStream_t stream, void** arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(form_runtime_ex), arguments);
}

}  // namespace

extern "C" {

int forms_open() {
  if (cudaMalloc(&g_resources.counter, sizeof(int)) != cudaSuccess) return 100;
  if (cudaMemset(g_resources.counter, 0, sizeof(int)) != cudaSuccess) return 101;
  return make_graph();
}

int forms_stream(void** stream) {
  return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking);
}

// Forms 0…6 run 1 kernel each, but 6 (a graph) runs 2.
int forms_launch(int form, void* stream_handle) {
  auto stream = static_cast<cudaStream_t>(stream_handle);
  void* arguments[] = {&g_resources.counter};
  switch (form) {
    case 0:
      form_runtime<<<1, 1, 0, stream>>>(g_resources.counter);
      return cudaGetLastError();
    case 1:
      return runtime_ex(stream, arguments);
    case 2:
      return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(form_cooperative), dim3(1), dim3(1),
                                         arguments, 0, stream);
    case 3:
      return cuLaunchKernel(driver_function(reinterpret_cast<const void*>(form_driver)), 1, 1, 1, 1, 1, 1, 0,
                            stream, arguments, nullptr);
    case 4:
      return driver_ex(driver_function(reinterpret_cast<const void*>(form_driver_ex)), stream, arguments);
    case 5:
      return cuLaunchCooperativeKernel(
          driver_function(reinterpret_cast<const void*>(form_driver_cooperative)), 1, 1, 1, 1, 1, 1, 0,
          stream, arguments);
    case 6: {
      static std::mutex one_graph_launch;  // an executable graph must not be launched by two threads at once
      std::lock_guard<std::mutex> lock(one_graph_launch);
      return cudaGraphLaunch(g_resources.graph, stream);
    }
    default:
      return 999;
  }
}

int forms_count() {
  int value = -1;
  cudaDeviceSynchronize();
  cudaMemcpy(&value, g_resources.counter, sizeof(int), cudaMemcpyDeviceToHost);
  return value;
}

}  // extern "C"
