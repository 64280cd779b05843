// Stream-ordered allocations and memory pools.
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
void call(CUpti_CallbackDomain domain, uint32_t cbid, const Params& params) {
  const Call made(domain, cbid, "pool", &params, nullptr);
}

void allocate(uintptr_t address, size_t bytes) {
  void* result = at(address);
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020,
       cudaMallocAsync_v11020_params{&result, bytes, at<cudaStream_t>(21)});
}

void captured_allocation() {
  void* result = at(0xabc900);
  const cudaMallocAsync_v11020_params params = {&result, 64, at<cudaStream_t>(21)};
  const Call made(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020, "cudaMallocAsync", &params,
                  nullptr);
  CUpti_GraphData data = {};
  data.graph = at<CUgraph>(8);
  data.node = at<CUgraphNode>(400);
  resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &data, nullptr);
}

}  // namespace

void pools() {
  cudaMemPool_t pool = at<cudaMemPool_t>(0x900);
  cudaMemPoolProps properties = {};
  properties.location.type = cudaMemLocationTypeDevice;
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolCreate_v11020,
       cudaMemPoolCreate_v11020_params{&pool, &properties});
  void* first = at(0xabc100);
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMallocFromPoolAsync_v11020,
       cudaMallocFromPoolAsync_v11020_params{&first, 64, pool, at<cudaStream_t>(21)});
  allocate(0xabc200, 128);  // from the device's current pool
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020,
       cudaFreeAsync_v11020_params{at(0xabc100), at<cudaStream_t>(22)});
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, cudaFree_v3020_params{at(0xabc200)});
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSetMemPool_v11020,
       cudaDeviceSetMemPool_v11020_params{0, pool});
  allocate(0xabc300, 256);
  CUdeviceptr second = 0xabc400;
  call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync,
       cuMemAllocFromPoolAsync_params{&second, 512, at<CUmemoryPool>(0xa00), nullptr});
  captured_allocation();
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolTrimTo_v11020,
       cudaMemPoolTrimTo_v11020_params{pool, 4096});
  call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolDestroy_v11020, cudaMemPoolDestroy_v11020_params{pool});
}
