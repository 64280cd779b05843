// The callbacks of an NVBit tool: which calls of the driver are launches, and which put kernels into graphs.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nvbit/tracer.h"

namespace warpsight {
namespace {

std::atomic<NvbitTracer*> g_tracer{nullptr};  // null without a request, after the end, and in a forked child
std::atomic<uint64_t> g_graphs{0};            // launches of graphs so far
thread_local uint64_t t_graph = 0;            // number of the one that this thread is making, 0 outside
thread_local bool t_inside = false;           // calls of the driver are our own

template <class Params>
LaunchCall call_of(const Params& params) {
  LaunchCall call;
  call.function = params.f;
  const uint32_t grid[] = {params.gridDimX, params.gridDimY, params.gridDimZ};
  const uint32_t block[] = {params.blockDimX, params.blockDimY, params.blockDimZ};
  std::copy(std::begin(grid), std::end(grid), call.grid);
  std::copy(std::begin(block), std::end(block), call.block);
  call.shared_bytes = params.sharedMemBytes;
  call.stream = params.hStream;
  return call;
}

LaunchCall call_of(const cuLaunchKernelEx_params& params) {
  struct Flat {
    CUfunction f;
    uint32_t gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
  };
  const CUlaunchConfig& config = *params.config;
  LaunchCall call =
      call_of(Flat{params.f, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
                   config.blockDimY, config.blockDimZ, config.sharedMemBytes, config.hStream});
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& size = config.attrs[i].value.clusterDim;
    const uint32_t cluster[] = {size.x, size.y, size.z};
    std::copy(std::begin(cluster), std::end(cluster), call.cluster);
  }
  return call;
}

// `per_thread`: a null stream is the thread's own.
void launch(NvbitTracer* tracer, CUcontext context, LaunchCall call, bool per_thread) {
  if (per_thread && call.stream == nullptr) call.stream = CU_STREAM_PER_THREAD;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool asked = cuStreamIsCapturing(call.stream, &status) == CUDA_SUCCESS;
  tracer->launch_begins(context, call, asked && status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

void prepare(NvbitTracer* tracer, CUcontext context, const CUgraphNodeParams* node) {
  if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && node->kernel.func != nullptr)
    tracer->prepare(context, node->kernel.func);
}

void at_call(NvbitTracer* tracer, CUcontext context, nvbit_api_cuda_t id, const void* params) {
  switch (id) {
    case API_CUDA_cuLaunchKernel:
    case API_CUDA_cuLaunchKernel_ptsz:
      return launch(tracer, context, call_of(*static_cast<const cuLaunchKernel_params*>(params)),
                    id == API_CUDA_cuLaunchKernel_ptsz);
    case API_CUDA_cuLaunchCooperativeKernel:
    case API_CUDA_cuLaunchCooperativeKernel_ptsz:
      return launch(tracer, context, call_of(*static_cast<const cuLaunchCooperativeKernel_params*>(params)),
                    id == API_CUDA_cuLaunchCooperativeKernel_ptsz);
    case API_CUDA_cuLaunchKernelEx:
    case API_CUDA_cuLaunchKernelEx_ptsz:
      return launch(tracer, context, call_of(*static_cast<const cuLaunchKernelEx_params*>(params)),
                    id == API_CUDA_cuLaunchKernelEx_ptsz);
    case API_CUDA_cuGraphAddKernelNode:
      return tracer->prepare(context,
                             static_cast<const cuGraphAddKernelNode_params*>(params)->nodeParams->func);
    case API_CUDA_cuGraphAddKernelNode_v2: {
      const auto* const node = static_cast<const cuGraphAddKernelNode_v2_params*>(params)->nodeParams;
      if (node->func != nullptr) tracer->prepare(context, node->func);
      return;
    }
    case API_CUDA_cuGraphAddNode:
      return prepare(tracer, context, static_cast<const cuGraphAddNode_params*>(params)->nodeParams);
    case API_CUDA_cuGraphAddNode_v2:
      return prepare(tracer, context, static_cast<const cuGraphAddNode_v2_params*>(params)->nodeParams);
    case API_CUDA_cuGraphLaunch:
    case API_CUDA_cuGraphLaunch_ptsz:
      t_graph = g_graphs.fetch_add(1) + 1;
      return;
    default:
      return;
  }
}

void in_child() { g_tracer.store(nullptr); }

}  // namespace
}  // namespace warpsight

using namespace warpsight;

void nvbit_at_init() {
  EventRequest request;
  if (!read_request(&request)) return;
  auto* const tracer = new NvbitTracer(std::move(request));
  if (!tracer->start()) {
    fprintf(stderr, "warpsight: the event file cannot be made: %s; no events are traced\n", strerror(errno));
    return;
  }
  g_tracer.store(tracer, std::memory_order_release);
  pthread_atfork(nullptr, nullptr, in_child);
}

void nvbit_at_term() {
  if (NvbitTracer* const tracer = g_tracer.exchange(nullptr)) tracer->stop();
}

void nvbit_at_ctx_init(CUcontext) {}

void nvbit_at_ctx_term(CUcontext) {}

void nvbit_tool_init(CUcontext context) {
  NvbitTracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer == nullptr) return;
  t_inside = true;
  tracer->context_made(context);
  t_inside = false;
}

void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t id, const char*, void* params,
                         CUresult*) {
  NvbitTracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer == nullptr || t_inside) return;
  t_inside = true;
  if (is_exit != 0) {
    tracer->launch_ends();
    if (id == API_CUDA_cuGraphLaunch || id == API_CUDA_cuGraphLaunch_ptsz) t_graph = 0;
  } else {
    at_call(tracer, context, id, params);
  }
  t_inside = false;
}

void nvbit_at_graph_node_launch(CUcontext context, CUfunction function, CUstream stream, uint64_t handle) {
  NvbitTracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer != nullptr && t_graph != 0)  // not when a graph is only uploaded
    tracer->graph_node_begins(context, function, stream, handle, t_graph);
}

// Begins a trial in a process that makes several, as the library of event traces does
// (sanitizer/injection.cpp).
extern "C" int warpsight_race_set(uint64_t seed, int on) {
  NvbitTracer* const tracer = g_tracer.load(std::memory_order_acquire);
  return tracer != nullptr && tracer->begin_trial(seed, on != 0) ? 1 : 0;
}
