// Copies and fills of every form, and those of graph nodes.
#include <cuda_runtime_api.h>

#include "standin.h"
#include "steps.h"

using namespace standin;  // NOLINT

namespace {

constexpr auto kRuntime = CUPTI_CB_DOMAIN_RUNTIME_API;
constexpr auto kDriver = CUPTI_CB_DOMAIN_DRIVER_API;

template <class T = void*>
T at(uintptr_t address) {
  return reinterpret_cast<T>(address);
}

template <class Params>
void copy(CUpti_CallbackDomain domain, uint32_t cbid, const Params& params) {
  Call call(domain, cbid, "copy", &params, nullptr);
  record_copy(64, call.correlation());
}

template <class Params>
void set(CUpti_CallbackDomain domain, uint32_t cbid, const Params& params) {
  Call call(domain, cbid, "set", &params, nullptr);
  record_set(64, call.correlation());
}

void boxes() {
  cudaMemcpy3DParms box = {};
  box.srcPtr = {at(0x1000), 256, 64, 8};
  box.srcPos = {16, 2, 1};
  box.dstArray = at<cudaArray_t>(0xa0);
  copy(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_v3020, cudaMemcpy3D_v3020_params{&box});
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = {at(0x2000), 256, 64, 8};
  peer.dstPtr = {at(0x3000), 256, 64, 8};
  peer.dstDevice = 1;
  copy(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DPeer_v4000, cudaMemcpy3DPeer_v4000_params{&peer});
  CUDA_MEMCPY2D area = {};
  area.srcMemoryType = CU_MEMORYTYPE_HOST;
  area.srcHost = at(0x4000);
  area.srcY = 1;
  area.srcPitch = 0x100;
  area.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  area.dstDevice = 0x5000;
  copy(kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz,
       cuMemcpy2DAsync_v2_ptsz_params{&area, nullptr});
  CUDA_MEMCPY3D_PEER contexts = {};
  contexts.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  contexts.srcDevice = 0x6000;
  contexts.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy(kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer, cuMemcpy3DPeer_params{&contexts});
}

// The driver's call inside says where the symbol is; a handle does not.
void symbols() {
  {
    const cudaMemcpyToSymbol_v3020_params params = {at(0x77), at(0x540), 64, 0, cudaMemcpyHostToDevice};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_v3020, "cudaMemcpyToSymbol", &params,
              nullptr);
    const cuMemcpyHtoD_v2_params inner = {0xd40, at(0x540), 64};
    Call driver_call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, "cuMemcpyHtoD", &inner, nullptr);
    record_copy(64, call.correlation());
  }
  copy(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_v3020,
       cudaMemcpyFromSymbol_v3020_params{at(0xd50), at(0x78), 64, 0, cudaMemcpyDeviceToHost});
}

template <class Params>
uint32_t replayed(const Params& params) {
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, "cudaGraphLaunch", &params, nullptr);
  Call inner(kDriver, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, "cuGraphLaunch", &params, nullptr);
  return call.correlation();
}

void replay() {
  const cudaGraphLaunch_v10000_params params = {at<cudaGraphExec_t>(0x900), nullptr};
  const uint32_t correlation = replayed(params);
  record_copy(64, correlation, 300);
  record_set(64, correlation, 301);
}

// nodeType stays 0, as with CUPTI 13.0.
void node_event(CUpti_CallbackIdResource id, uint64_t node, uint64_t original) {
  CUpti_GraphData data = {};
  data.graph = at<CUgraph>(8);
  data.node = at<CUgraphNode>(node);
  data.originalNode = at<CUgraphNode>(original);
  resource(id, &data, nullptr);
}

}  // namespace

void copies() {
  const auto async = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000;
  copy(kRuntime, async,
       cudaMemcpyAsync_ptsz_v7000_params{at(0xd10), at(0x510), 64, cudaMemcpyDeviceToDevice, nullptr});
  copy(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020,
       cudaMemcpy2D_v3020_params{at(0xd20), 32, at(0x520), 32, 32, 2, cudaMemcpyDefault});
  copy(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
       cudaMemcpyPeerAsync_v4000_params{at(0xd30), 1, at(0x530), 0, 64, nullptr});
  copy(kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
       cuMemcpyDtoHAsync_v2_params{at(0xd60), 0x560, 64, nullptr});
  boxes();
  symbols();
  set(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemset2DAsync_v3020,
      cudaMemset2DAsync_v3020_params{at(0xe10), 32, 0, 32, 2, nullptr});
  set(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemset3D_v3020,
      cudaMemset3D_v3020_params{{at(0xe20), 32, 32, 2}, 0, {32, 2, 1}});
  set(kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async, cuMemsetD32Async_params{0xe30, 0, 16, nullptr});
}

// Nodes 100 (captured copy) and 101 (added fill); 300 and 301 are their clones in the executable graph.
void graph_copies() {
  {
    const cudaMemcpyAsync_v3020_params params = {at(0xd70), at(0x570), 64, cudaMemcpyDefault, nullptr};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync", &params, nullptr);
    node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 100, 0);
  }
  {
    cudaGraphNode_t made = at<cudaGraphNode_t>(101);
    cudaMemsetParams fill = {};
    fill.dst = at(0xe70);
    const cudaGraphAddMemsetNode_v10000_params params = {&made, nullptr, nullptr, 0, &fill};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphAddMemsetNode_v10000, "add", &params, nullptr);
    node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 101, 0);
  }
  {
    cudaGraphExec_t executable = at<cudaGraphExec_t>(0x900);
    const cudaGraphInstantiate_v12000_params params = {&executable, at<cudaGraph_t>(8), 0};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000, "cudaGraphInstantiate", &params,
              nullptr);
    for (uint64_t node = 300; node < 302; ++node) {  // made, and then said to be a clone
      node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, 0);
      node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, node, node - 200);
    }
    node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 302, 0);
  }
  replay();
  {  // told with the executable graph's own node
    const cudaGraphExecMemcpyNodeSetParams1D_v11010_params params = {
        at<cudaGraphExec_t>(0x900), at<cudaGraphNode_t>(100), at(0xd80), at(0x580), 64, cudaMemcpyDefault};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphExecMemcpyNodeSetParams1D_v11010, "set", &params,
              nullptr);
    node_event(CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS, 300, 0);
  }
  {  // not told: what the clone fills is not known any more
    cudaMemsetParams fill = {};
    fill.dst = at(0xe80);
    const cudaGraphExecMemsetNodeSetParams_v10020_params params = {at<cudaGraphExec_t>(0x900),
                                                                   at<cudaGraphNode_t>(101), &fill};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphExecMemsetNodeSetParams_v10020, "set", &params,
              nullptr);
  }
  replay();
  // Destroyed, and the launch is read later; then another copy has its id, of which nothing is told.
  node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, 300, 0);
  replay();
  {
    const cudaMemcpyAsync_v3020_params params = {at(0xd90), at(0x590), 64, cudaMemcpyDefault, nullptr};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync", &params, nullptr);
    node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 300, 0);
    node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 303, 0);  // two nodes: which one copies is not known
  }
  replay();
}
