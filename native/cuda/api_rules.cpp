#include "cuda/api_rules.h"

#include <cuda_runtime_api.h>
#include <fnmatch.h>

#include <cstring>

#include "cuda/addresses.h"
#include "cuda/functions.h"

namespace warpsight {
namespace {

#define ID_RUNTIME(name) CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##name
#define ID_DRIVER(name) CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name
#define AT(name, field) static_cast<uint8_t>(offsetof(name##_params, field))
#define SIZE_OF(name, field) (sizeof(name##_params::field) == 4 ? BytesAt::u32 : BytesAt::u64)

constexpr ApiRule rule(const char* name, int domain, int cbid, CallGroup group, LaunchForm form,
                       ObjectAt object, uint8_t object_offset, BytesAt bytes, uint8_t bytes_offset) {
  return {name,
          static_cast<uint16_t>(cbid),
          static_cast<uint8_t>(domain),
          group,
          form,
          object,
          object_offset,
          bytes,
          bytes_offset};
}

#define LAUNCH(domain, name, form)                                                          \
  rule(#name, ID_##domain(name), CallGroup::launch, LaunchForm::form, ObjectAt::nowhere, 0, \
       BytesAt::nowhere, 0),
#define PLAIN(domain, name, group)                                                                           \
  rule(#name, ID_##domain(name), CallGroup::group, LaunchForm::none, ObjectAt::nowhere, 0, BytesAt::nowhere, \
       0),
#define VALUE(domain, name, group, object)                                                              \
  rule(#name, ID_##domain(name), CallGroup::group, LaunchForm::none, ObjectAt::value, AT(name, object), \
       BytesAt::nowhere, 0),
#define CREATED(domain, name, group, object)                                                              \
  rule(#name, ID_##domain(name), CallGroup::group, LaunchForm::none, ObjectAt::pointed, AT(name, object), \
       BytesAt::nowhere, 0),
#define SIZED(domain, name, group, object, bytes)                                                       \
  rule(#name, ID_##domain(name), CallGroup::group, LaunchForm::none, ObjectAt::value, AT(name, object), \
       SIZE_OF(name, bytes), AT(name, bytes)),
#define OUT(domain, name, group, object, bytes)                                                           \
  rule(#name, ID_##domain(name), CallGroup::group, LaunchForm::none, ObjectAt::pointed, AT(name, object), \
       SIZE_OF(name, bytes), AT(name, bytes)),
// `height` directly follows `width` in every such struct.
#define AREA(domain, name, group, object, width, height)                                                \
  rule(#name, ID_##domain(name), CallGroup::group, LaunchForm::none, ObjectAt::value, AT(name, object), \
       offsetof(name##_params, height) == offsetof(name##_params, width) + 8 ? BytesAt::area            \
                                                                             : BytesAt::nowhere,        \
       AT(name, width)),
#define OUT_AREA(domain, name, object, width, height)                                                      \
  rule(#name, ID_##domain(name), CallGroup::memory, LaunchForm::none, ObjectAt::pointed, AT(name, object), \
       BytesAt::area, AT(name, width)),

#if CUPTI_API_VERSION >= 130000
// Parameters of cuMemSetMemPool. The wheels of CUPTI and of the Sanitizer install a header with the same
// name, and the last one wins: the Sanitizer's lacks these.
struct SetMemPool {
  CUmemLocation* location;
  CUmemAllocationType type;
  CUmemoryPool pool;
};
#endif

constexpr ApiRule kRules[] = {
    // clang-format off
    // Launches
    LAUNCH(RUNTIME, cudaLaunchKernel_v7000, dim3_arguments)
    LAUNCH(RUNTIME, cudaLaunchKernel_ptsz_v7000, dim3_arguments)
    LAUNCH(RUNTIME, cudaLaunchCooperativeKernel_v9000, dim3_arguments)
    LAUNCH(RUNTIME, cudaLaunchCooperativeKernel_ptsz_v9000, dim3_arguments)
    LAUNCH(RUNTIME, cudaLaunch_v3020, none)
    LAUNCH(RUNTIME, cudaLaunchCooperativeKernelMultiDevice_v9000, none)
    LAUNCH(RUNTIME, cudaGraphLaunch_v10000, graph)
    LAUNCH(RUNTIME, cudaGraphLaunch_ptsz_v10000, graph)
    LAUNCH(RUNTIME, cudaLaunchKernelExC_v11060, runtime_config)
    LAUNCH(RUNTIME, cudaLaunchKernelExC_ptsz_v11060, runtime_config)
    LAUNCH(DRIVER, cuLaunch, none)
    LAUNCH(DRIVER, cuLaunchGrid, driver_grid)
    LAUNCH(DRIVER, cuLaunchGridAsync, driver_grid)
    LAUNCH(DRIVER, cuLaunchKernel, driver_arguments)
    LAUNCH(DRIVER, cuLaunchKernel_ptsz, driver_arguments)
    LAUNCH(DRIVER, cuLaunchCooperativeKernel, driver_arguments)
    LAUNCH(DRIVER, cuLaunchCooperativeKernel_ptsz, driver_arguments)
    LAUNCH(DRIVER, cuLaunchCooperativeKernelMultiDevice, driver_list)
    LAUNCH(DRIVER, cuGraphLaunch, graph)
    LAUNCH(DRIVER, cuGraphLaunch_ptsz, graph)
    LAUNCH(DRIVER, cuLaunchKernelEx, driver_config)
    LAUNCH(DRIVER, cuLaunchKernelEx_ptsz, driver_config)
#if CUPTI_API_VERSION >= 130000
    LAUNCH(RUNTIME, __cudaLaunchKernel_v13000, dim3_arguments)
    LAUNCH(RUNTIME, __cudaLaunchKernel_ptsz_v13000, dim3_arguments)
#endif
    // Copies
    SIZED(RUNTIME, cudaMemcpy_v3020, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2D_v3020, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyToArray_v3020, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DToArray_v3020, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyFromArray_v3020, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DFromArray_v3020, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyArrayToArray_v3020, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DArrayToArray_v3020, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyToSymbol_v3020, copy, symbol, count)
    SIZED(RUNTIME, cudaMemcpyFromSymbol_v3020, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyAsync_v3020, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyToArrayAsync_v3020, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyFromArrayAsync_v3020, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DAsync_v3020, copy, dst, width, height)
    AREA(RUNTIME, cudaMemcpy2DToArrayAsync_v3020, copy, dst, width, height)
    AREA(RUNTIME, cudaMemcpy2DFromArrayAsync_v3020, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyToSymbolAsync_v3020, copy, symbol, count)
    SIZED(RUNTIME, cudaMemcpyFromSymbolAsync_v3020, copy, dst, count)
    PLAIN(RUNTIME, cudaMemcpy3D_v3020, copy)
    PLAIN(RUNTIME, cudaMemcpy3DAsync_v3020, copy)
    SIZED(RUNTIME, cudaMemcpyPeer_v4000, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyPeerAsync_v4000, copy, dst, count)
    PLAIN(RUNTIME, cudaMemcpy3DPeer_v4000, copy)
    PLAIN(RUNTIME, cudaMemcpy3DPeerAsync_v4000, copy)
    SIZED(RUNTIME, cudaMemcpy_ptds_v7000, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2D_ptds_v7000, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyToArray_ptds_v7000, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DToArray_ptds_v7000, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyFromArray_ptds_v7000, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DFromArray_ptds_v7000, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyArrayToArray_ptds_v7000, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DArrayToArray_ptds_v7000, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyToSymbol_ptds_v7000, copy, symbol, count)
    SIZED(RUNTIME, cudaMemcpyFromSymbol_ptds_v7000, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyAsync_ptsz_v7000, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyToArrayAsync_ptsz_v7000, copy, dst, count)
    SIZED(RUNTIME, cudaMemcpyFromArrayAsync_ptsz_v7000, copy, dst, count)
    AREA(RUNTIME, cudaMemcpy2DAsync_ptsz_v7000, copy, dst, width, height)
    AREA(RUNTIME, cudaMemcpy2DToArrayAsync_ptsz_v7000, copy, dst, width, height)
    AREA(RUNTIME, cudaMemcpy2DFromArrayAsync_ptsz_v7000, copy, dst, width, height)
    SIZED(RUNTIME, cudaMemcpyToSymbolAsync_ptsz_v7000, copy, symbol, count)
    SIZED(RUNTIME, cudaMemcpyFromSymbolAsync_ptsz_v7000, copy, dst, count)
    PLAIN(RUNTIME, cudaMemcpy3D_ptds_v7000, copy)
    PLAIN(RUNTIME, cudaMemcpy3DAsync_ptsz_v7000, copy)
    PLAIN(RUNTIME, cudaMemcpy3DPeer_ptds_v7000, copy)
    PLAIN(RUNTIME, cudaMemcpy3DPeerAsync_ptsz_v7000, copy)
    SIZED(DRIVER, cuMemcpyHtoD_v2, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyHtoDAsync_v2, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoH_v2, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoHAsync_v2, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoD_v2, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoDAsync_v2, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoH_v2, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoHAsync_v2, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoD_v2, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoA_v2, copy, dstArray, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoA_v2, copy, dstArray, ByteCount)
    PLAIN(DRIVER, cuMemcpy2D_v2, copy)
    PLAIN(DRIVER, cuMemcpy2DUnaligned_v2, copy)
    PLAIN(DRIVER, cuMemcpy2DAsync_v2, copy)
    PLAIN(DRIVER, cuMemcpy3D_v2, copy)
    PLAIN(DRIVER, cuMemcpy3DAsync_v2, copy)
    SIZED(DRIVER, cuMemcpyHtoA_v2, copy, dstArray, ByteCount)
    SIZED(DRIVER, cuMemcpyHtoAAsync_v2, copy, dstArray, ByteCount)
    SIZED(DRIVER, cuMemcpy, copy, dst, ByteCount)
    SIZED(DRIVER, cuMemcpyAsync, copy, dst, ByteCount)
    SIZED(DRIVER, cuMemcpyPeer, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyPeerAsync, copy, dstDevice, ByteCount)
    PLAIN(DRIVER, cuMemcpy3DPeer, copy)
    PLAIN(DRIVER, cuMemcpy3DPeerAsync, copy)
    SIZED(DRIVER, cuMemcpyHtoD_v2_ptds, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoH_v2_ptds, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoD_v2_ptds, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoA_v2_ptds, copy, dstArray, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoD_v2_ptds, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyHtoA_v2_ptds, copy, dstArray, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoH_v2_ptds, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoA_v2_ptds, copy, dstArray, ByteCount)
    PLAIN(DRIVER, cuMemcpy2D_v2_ptds, copy)
    PLAIN(DRIVER, cuMemcpy2DUnaligned_v2_ptds, copy)
    PLAIN(DRIVER, cuMemcpy3D_v2_ptds, copy)
    SIZED(DRIVER, cuMemcpy_ptds, copy, dst, ByteCount)
    SIZED(DRIVER, cuMemcpyPeer_ptds, copy, dstDevice, ByteCount)
    PLAIN(DRIVER, cuMemcpy3DPeer_ptds, copy)
    SIZED(DRIVER, cuMemcpyAsync_ptsz, copy, dst, ByteCount)
    SIZED(DRIVER, cuMemcpyHtoAAsync_v2_ptsz, copy, dstArray, ByteCount)
    SIZED(DRIVER, cuMemcpyAtoHAsync_v2_ptsz, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyHtoDAsync_v2_ptsz, copy, dstDevice, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoHAsync_v2_ptsz, copy, dstHost, ByteCount)
    SIZED(DRIVER, cuMemcpyDtoDAsync_v2_ptsz, copy, dstDevice, ByteCount)
    PLAIN(DRIVER, cuMemcpy2DAsync_v2_ptsz, copy)
    PLAIN(DRIVER, cuMemcpy3DAsync_v2_ptsz, copy)
    SIZED(DRIVER, cuMemcpyPeerAsync_ptsz, copy, dstDevice, ByteCount)
    PLAIN(DRIVER, cuMemcpy3DPeerAsync_ptsz, copy)
#if CUPTI_API_VERSION >= 130000
    PLAIN(RUNTIME, cudaMemcpyBatchAsync_v13000, copy)
    PLAIN(RUNTIME, cudaMemcpyBatchAsync_ptsz_v13000, copy)
    PLAIN(RUNTIME, cudaMemcpy3DBatchAsync_v13000, copy)
    PLAIN(RUNTIME, cudaMemcpy3DBatchAsync_ptsz_v13000, copy)
    PLAIN(DRIVER, cuMemcpyBatchAsync, copy)
    PLAIN(DRIVER, cuMemcpyBatchAsync_ptsz, copy)
    PLAIN(DRIVER, cuMemcpy3DBatchAsync, copy)
    PLAIN(DRIVER, cuMemcpy3DBatchAsync_ptsz, copy)
    PLAIN(DRIVER, cuMemcpyBatchAsync_v2, copy)
    PLAIN(DRIVER, cuMemcpyBatchAsync_v2_ptsz, copy)
    PLAIN(DRIVER, cuMemcpy3DBatchAsync_v2, copy)
    PLAIN(DRIVER, cuMemcpy3DBatchAsync_v2_ptsz, copy)
#endif
    // Sets
    SIZED(RUNTIME, cudaMemset_v3020, set, devPtr, count)
    AREA(RUNTIME, cudaMemset2D_v3020, set, devPtr, width, height)
    SIZED(RUNTIME, cudaMemsetAsync_v3020, set, devPtr, count)
    AREA(RUNTIME, cudaMemset2DAsync_v3020, set, devPtr, width, height)
    PLAIN(RUNTIME, cudaMemset3D_v3020, set)
    PLAIN(RUNTIME, cudaMemset3DAsync_v3020, set)
    SIZED(RUNTIME, cudaMemset_ptds_v7000, set, devPtr, count)
    AREA(RUNTIME, cudaMemset2D_ptds_v7000, set, devPtr, width, height)
    SIZED(RUNTIME, cudaMemsetAsync_ptsz_v7000, set, devPtr, count)
    AREA(RUNTIME, cudaMemset2DAsync_ptsz_v7000, set, devPtr, width, height)
    PLAIN(RUNTIME, cudaMemset3D_ptds_v7000, set)
    PLAIN(RUNTIME, cudaMemset3DAsync_ptsz_v7000, set)
    SIZED(DRIVER, cuMemsetD8Async, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD16Async, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD32Async, set, dstDevice, N)
    AREA(DRIVER, cuMemsetD2D8Async, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D16Async, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D32Async, set, dstDevice, Width, Height)
    SIZED(DRIVER, cuMemsetD8_v2, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD16_v2, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD32_v2, set, dstDevice, N)
    AREA(DRIVER, cuMemsetD2D8_v2, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D16_v2, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D32_v2, set, dstDevice, Width, Height)
    SIZED(DRIVER, cuMemsetD8_v2_ptds, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD16_v2_ptds, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD32_v2_ptds, set, dstDevice, N)
    AREA(DRIVER, cuMemsetD2D8_v2_ptds, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D16_v2_ptds, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D32_v2_ptds, set, dstDevice, Width, Height)
    SIZED(DRIVER, cuMemsetD8Async_ptsz, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD16Async_ptsz, set, dstDevice, N)
    SIZED(DRIVER, cuMemsetD32Async_ptsz, set, dstDevice, N)
    AREA(DRIVER, cuMemsetD2D8Async_ptsz, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D16Async_ptsz, set, dstDevice, Width, Height)
    AREA(DRIVER, cuMemsetD2D32Async_ptsz, set, dstDevice, Width, Height)
    // Memory
    OUT(RUNTIME, cudaMalloc_v3020, memory, devPtr, size)
    OUT_AREA(RUNTIME, cudaMallocPitch_v3020, devPtr, width, height)
    VALUE(RUNTIME, cudaFree_v3020, memory, devPtr)
    OUT(RUNTIME, cudaMallocHost_v3020, memory, ptr, size)
    VALUE(RUNTIME, cudaFreeHost_v3020, memory, ptr)
    OUT(RUNTIME, cudaHostAlloc_v3020, memory, pHost, size)
    OUT(RUNTIME, cudaMallocManaged_v6000, memory, devPtr, size)
    OUT(RUNTIME, cudaMallocAsync_v11020, memory, devPtr, size)
    OUT(RUNTIME, cudaMallocAsync_ptsz_v11020, memory, devPtr, size)
    VALUE(RUNTIME, cudaFreeAsync_v11020, memory, devPtr)
    VALUE(RUNTIME, cudaFreeAsync_ptsz_v11020, memory, devPtr)
    OUT(RUNTIME, cudaMallocFromPoolAsync_v11020, memory, ptr, size)
    OUT(RUNTIME, cudaMallocFromPoolAsync_ptsz_v11020, memory, ptr, size)
    VALUE(DRIVER, cuMemFreeHost, memory, p)
    OUT(DRIVER, cuMemHostAlloc, memory, pp, bytesize)
    OUT(DRIVER, cuMemAlloc_v2, memory, dptr, bytesize)
    OUT_AREA(DRIVER, cuMemAllocPitch_v2, dptr, WidthInBytes, Height)
    VALUE(DRIVER, cuMemFree_v2, memory, dptr)
    OUT(DRIVER, cuMemAllocHost_v2, memory, pp, bytesize)
    OUT(DRIVER, cuMemAllocManaged, memory, dptr, bytesize)
    OUT(DRIVER, cuMemAllocAsync, memory, dptr, bytesize)
    OUT(DRIVER, cuMemAllocAsync_ptsz, memory, dptr, bytesize)
    VALUE(DRIVER, cuMemFreeAsync, memory, dptr)
    VALUE(DRIVER, cuMemFreeAsync_ptsz, memory, dptr)
    OUT(DRIVER, cuMemAllocFromPoolAsync, memory, dptr, bytesize)
    OUT(DRIVER, cuMemAllocFromPoolAsync_ptsz, memory, dptr, bytesize)
    // Memory pools
    CREATED(RUNTIME, cudaMemPoolCreate_v11020, memory, memPool)
    CREATED(RUNTIME, cudaMemPoolImportFromShareableHandle_v11020, memory, memPool)
    SIZED(RUNTIME, cudaMemPoolTrimTo_v11020, memory, memPool, minBytesToKeep)
    VALUE(RUNTIME, cudaMemPoolDestroy_v11020, memory, memPool)
    VALUE(RUNTIME, cudaDeviceSetMemPool_v11020, memory, memPool)
    CREATED(DRIVER, cuMemPoolCreate, memory, pool)
    CREATED(DRIVER, cuMemPoolImportFromShareableHandle, memory, pool_out)
    SIZED(DRIVER, cuMemPoolTrimTo, memory, pool, minBytesToKeep)
    VALUE(DRIVER, cuMemPoolDestroy, memory, pool)
    VALUE(DRIVER, cuDeviceSetMemPool, memory, pool)
#if CUPTI_API_VERSION >= 130000
    VALUE(RUNTIME, cudaMemSetMemPool_v13000, memory, memPool)
    rule("cuMemSetMemPool", ID_DRIVER(cuMemSetMemPool), CallGroup::memory, LaunchForm::none, ObjectAt::value,
         offsetof(SetMemPool, pool), BytesAt::nowhere, 0),
#endif
    // Synchronisation
    PLAIN(RUNTIME, cudaThreadSynchronize_v3020, sync)
    VALUE(RUNTIME, cudaStreamSynchronize_v3020, sync, stream)
    VALUE(RUNTIME, cudaEventSynchronize_v3020, sync, event)
    PLAIN(RUNTIME, cudaDeviceSynchronize_v3020, sync)
    VALUE(RUNTIME, cudaStreamSynchronize_ptsz_v7000, sync, stream)
    PLAIN(DRIVER, cuCtxSynchronize, sync)
    VALUE(DRIVER, cuEventSynchronize, sync, hEvent)
    VALUE(DRIVER, cuStreamSynchronize, sync, hStream)
    VALUE(DRIVER, cuStreamSynchronize_ptsz, sync, hStream)
    PLAIN(DRIVER, cuCtxSynchronize_v2, sync)
    // Events
    VALUE(RUNTIME, cudaEventRecord_v3020, event, event)
    VALUE(RUNTIME, cudaStreamWaitEvent_v3020, event, event)
    VALUE(RUNTIME, cudaEventRecord_ptsz_v7000, event, event)
    VALUE(RUNTIME, cudaStreamWaitEvent_ptsz_v7000, event, event)
    VALUE(RUNTIME, cudaEventRecordWithFlags_v11010, event, event)
    VALUE(RUNTIME, cudaEventRecordWithFlags_ptsz_v11010, event, event)
    VALUE(DRIVER, cuEventRecord, event, hEvent)
    VALUE(DRIVER, cuStreamWaitEvent, event, hEvent)
    VALUE(DRIVER, cuStreamWaitEvent_ptsz, event, hEvent)
    VALUE(DRIVER, cuEventRecord_ptsz, event, hEvent)
    VALUE(DRIVER, cuEventRecordWithFlags, event, hEvent)
    VALUE(DRIVER, cuEventRecordWithFlags_ptsz, event, hEvent)
    // Streams
    CREATED(RUNTIME, cudaStreamCreate_v3020, stream, pStream)
    CREATED(RUNTIME, cudaStreamCreateWithFlags_v5000, stream, pStream)
    VALUE(RUNTIME, cudaStreamDestroy_v5050, stream, stream)
    CREATED(RUNTIME, cudaStreamCreateWithPriority_v5050, stream, pStream)
    CREATED(DRIVER, cuStreamCreate, stream, phStream)
    VALUE(DRIVER, cuStreamDestroy, stream, hStream)
    VALUE(DRIVER, cuStreamDestroy_v2, stream, hStream)
    CREATED(DRIVER, cuStreamCreateWithPriority, stream, phStream)
    // Modules
    CREATED(RUNTIME, cudaLibraryLoadData_v12060, module, library)
    CREATED(RUNTIME, cudaLibraryLoadFromFile_v12060, module, library)
    CREATED(DRIVER, cuModuleLoad, module, module)
    CREATED(DRIVER, cuModuleLoadData, module, module)
    CREATED(DRIVER, cuModuleLoadDataEx, module, module)
    CREATED(DRIVER, cuModuleLoadFatBinary, module, module)
    CREATED(DRIVER, cuLibraryLoadData, module, library)
    CREATED(DRIVER, cuLibraryLoadFromFile, module, library)
    // Graphs
    VALUE(RUNTIME, cudaGraphExecUpdate_v10020, graph, hGraphExec)
    PLAIN(RUNTIME, cudaGraphInstantiate_v10000, graph)
    CREATED(RUNTIME, cudaGraphInstantiateWithFlags_v11040, graph, pGraphExec)
    CREATED(RUNTIME, cudaGraphInstantiateWithParams_v12000, graph, pGraphExec)
    CREATED(RUNTIME, cudaGraphInstantiateWithParams_ptsz_v12000, graph, pGraphExec)
    CREATED(RUNTIME, cudaGraphInstantiate_v12000, graph, pGraphExec)
    CREATED(DRIVER, cuGraphInstantiate, graph, phGraphExec)
    VALUE(DRIVER, cuGraphExecUpdate, graph, hGraphExec)
    CREATED(DRIVER, cuGraphInstantiate_v2, graph, phGraphExec)
    CREATED(DRIVER, cuGraphInstantiateWithFlags, graph, phGraphExec)
    CREATED(DRIVER, cuGraphInstantiateWithParams, graph, phGraphExec)
    CREATED(DRIVER, cuGraphInstantiateWithParams_ptsz, graph, phGraphExec)
    VALUE(DRIVER, cuGraphExecUpdate_v2, graph, hGraphExec)
    // Nodes that copy and fill
    CREATED(RUNTIME, cudaGraphAddMemcpyNode_v10000, graph, pGraphNode)
    CREATED(RUNTIME, cudaGraphAddMemcpyNode1D_v11010, graph, pGraphNode)
    CREATED(RUNTIME, cudaGraphAddMemcpyNodeToSymbol_v11010, graph, pGraphNode)
    CREATED(RUNTIME, cudaGraphAddMemcpyNodeFromSymbol_v11010, graph, pGraphNode)
    CREATED(RUNTIME, cudaGraphAddMemsetNode_v10000, graph, pGraphNode)
    CREATED(RUNTIME, cudaGraphAddNode_v12030, graph, pGraphNode)
    VALUE(RUNTIME, cudaGraphMemcpyNodeSetParams_v10000, graph, node)
    VALUE(RUNTIME, cudaGraphMemcpyNodeSetParams1D_v11010, graph, node)
    VALUE(RUNTIME, cudaGraphMemcpyNodeSetParamsToSymbol_v11010, graph, node)
    VALUE(RUNTIME, cudaGraphMemcpyNodeSetParamsFromSymbol_v11010, graph, node)
    VALUE(RUNTIME, cudaGraphMemsetNodeSetParams_v10000, graph, node)
    VALUE(RUNTIME, cudaGraphNodeSetParams_v12020, graph, node)
    VALUE(RUNTIME, cudaGraphExecMemcpyNodeSetParams_v10020, graph, node)
    VALUE(RUNTIME, cudaGraphExecMemcpyNodeSetParams1D_v11010, graph, node)
    VALUE(RUNTIME, cudaGraphExecMemcpyNodeSetParamsToSymbol_v11010, graph, node)
    VALUE(RUNTIME, cudaGraphExecMemcpyNodeSetParamsFromSymbol_v11010, graph, node)
    VALUE(RUNTIME, cudaGraphExecMemsetNodeSetParams_v10020, graph, node)
    VALUE(RUNTIME, cudaGraphExecNodeSetParams_v12020, graph, node)
    CREATED(DRIVER, cuGraphAddMemcpyNode, graph, phGraphNode)
    CREATED(DRIVER, cuGraphAddMemsetNode, graph, phGraphNode)
    CREATED(DRIVER, cuGraphAddNode, graph, phGraphNode)
    CREATED(DRIVER, cuGraphAddNode_v2, graph, phGraphNode)
    VALUE(DRIVER, cuGraphMemcpyNodeSetParams, graph, hNode)
    VALUE(DRIVER, cuGraphMemsetNodeSetParams, graph, hNode)
    VALUE(DRIVER, cuGraphNodeSetParams, graph, hNode)
    VALUE(DRIVER, cuGraphExecMemcpyNodeSetParams, graph, hNode)
    VALUE(DRIVER, cuGraphExecMemsetNodeSetParams, graph, hNode)
    VALUE(DRIVER, cuGraphExecNodeSetParams, graph, hNode)
    // Nodes of other kinds: the call determines which
    PLAIN(RUNTIME, cudaGraphAddKernelNode_v10000, graph)
    PLAIN(RUNTIME, cudaGraphAddHostNode_v10000, graph)
    PLAIN(RUNTIME, cudaGraphAddChildGraphNode_v10000, graph)
    PLAIN(RUNTIME, cudaGraphAddEmptyNode_v10000, graph)
    PLAIN(RUNTIME, cudaGraphAddEventRecordNode_v11010, graph)
    PLAIN(RUNTIME, cudaGraphAddEventWaitNode_v11010, graph)
    PLAIN(RUNTIME, cudaGraphAddExternalSemaphoresSignalNode_v11020, graph)
    PLAIN(RUNTIME, cudaGraphAddExternalSemaphoresWaitNode_v11020, graph)
    PLAIN(RUNTIME, cudaGraphAddMemAllocNode_v11040, graph)
    PLAIN(RUNTIME, cudaGraphAddMemFreeNode_v11040, graph)
    PLAIN(DRIVER, cuGraphAddKernelNode, graph)
    PLAIN(DRIVER, cuGraphAddKernelNode_v2, graph)
    PLAIN(DRIVER, cuGraphAddHostNode, graph)
    PLAIN(DRIVER, cuGraphAddChildGraphNode, graph)
    PLAIN(DRIVER, cuGraphAddEmptyNode, graph)
    PLAIN(DRIVER, cuGraphAddEventRecordNode, graph)
    PLAIN(DRIVER, cuGraphAddEventWaitNode, graph)
    PLAIN(DRIVER, cuGraphAddExternalSemaphoresSignalNode, graph)
    PLAIN(DRIVER, cuGraphAddExternalSemaphoresWaitNode, graph)
    PLAIN(DRIVER, cuGraphAddMemAllocNode, graph)
    PLAIN(DRIVER, cuGraphAddMemFreeNode, graph)
    PLAIN(DRIVER, cuGraphAddBatchMemOpNode, graph)
    // Host functions of streams: nodes of their own in a captured graph
    PLAIN(RUNTIME, cudaLaunchHostFunc_v10000, other)
    PLAIN(RUNTIME, cudaLaunchHostFunc_ptsz_v10000, other)
    PLAIN(DRIVER, cuLaunchHostFunc, other)
    PLAIN(DRIVER, cuLaunchHostFunc_ptsz, other)
    // The program's own capture range
    PLAIN(RUNTIME, cudaProfilerStart_v4000, profiler)
    PLAIN(RUNTIME, cudaProfilerStop_v4000, profiler)
    PLAIN(DRIVER, cuProfilerStart, profiler)
    PLAIN(DRIVER, cuProfilerStop, profiler)
    // clang-format on
};

constexpr uint16_t kNoRule = 0xffff;
constexpr ApiRule kOther =
    rule("", 0, 0, CallGroup::other, LaunchForm::none, ObjectAt::nowhere, 0, BytesAt::nowhere, 0);
static_assert(sizeof kRules / sizeof kRules[0] < kNoRule, "rule numbers are 16 bits");

uint16_t g_index[2][kMostCallbackIds];  // rule number by domain and callback id; constant after index_rules

// "cudaMemcpyAsync" of "cudaMemcpyAsync_ptsz_v7000": what users write.
std::string base_name(const char* name) {
  std::string base = name;
  for (size_t at = base.rfind('_'); at != std::string::npos && at > 1; at = base.rfind('_')) {
    const std::string tail = base.substr(at + 1);
    const bool version =
        tail.size() > 1 && tail[0] == 'v' && strspn(tail.c_str() + 1, "0123456789") == tail.size() - 1;
    if (!version && tail != "ptsz" && tail != "ptds") break;
    base.resize(at);
  }
  return base;
}

bool listed(const std::string& api, const char* name) {
  const std::string base = base_name(name);
  size_t from = 0;
  while (from <= api.size()) {
    size_t to = api.find(',', from);
    if (to == std::string::npos) to = api.size();
    if (fnmatch(api.substr(from, to - from).c_str(), base.c_str(), 0) == 0) return true;
    from = to + 1;
  }
  return false;
}

// Every function the loaded library has a name for.
template <class Wanted>
void add_known_functions(std::vector<SelectedCall>* calls, Wanted wanted) {
  if (cupti().cuptiGetCallbackName == nullptr) return;
  for (const uint8_t domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
    for (uint32_t cbid = 1; cbid < kMostCallbackIds; ++cbid) {
      const char* name = nullptr;
      const auto result =
          cupti().cuptiGetCallbackName(static_cast<CUpti_CallbackDomain>(domain), cbid, &name);
      if (result != CUPTI_SUCCESS || name == nullptr || *name == 0) continue;
      if (wanted(domain, cbid, name)) calls->push_back({domain, static_cast<uint16_t>(cbid)});
    }
  }
}

// Every runtime launch ends in a driver launch with the same correlation id and kernel name, so one domain
// sees all forms; subscribing to both would call us four times for each launch.
bool is_launch(const ApiRule& rule) {
  return rule.group == CallGroup::launch && rule.domain == CUPTI_CB_DOMAIN_DRIVER_API;
}

}  // namespace

void index_rules() {
  memset(g_index, 0xff, sizeof g_index);
  uint16_t number = 0;
  for (const auto& r : kRules) g_index[r.domain - CUPTI_CB_DOMAIN_DRIVER_API][r.cbid] = number++;
  index_addresses();
}

const ApiRule& rule_of(uint8_t domain, uint32_t cbid) {
  static_assert(CUPTI_CB_DOMAIN_RUNTIME_API == CUPTI_CB_DOMAIN_DRIVER_API + 1,
                "the index has these two domains");
  const uint32_t row = domain - CUPTI_CB_DOMAIN_DRIVER_API;
  if (row > 1 || cbid >= kMostCallbackIds) return kOther;
  const uint16_t number = g_index[row][cbid];
  return number == kNoRule ? kOther : kRules[number];
}

std::vector<SelectedCall> select_calls(const std::string& api) {
  std::vector<SelectedCall> calls;
  if (api == "off") return calls;
  const bool everything = api == "default" || api.empty();
  if (api == "all") {
    add_known_functions(&calls, [](uint8_t, uint32_t, const char*) { return true; });
    return calls;
  }
  for (const auto& r : kRules) {
    if (is_launch(r) || (everything && r.group != CallGroup::launch)) calls.push_back({r.domain, r.cbid});
  }
  if (!everything && api != "launches") {
    add_known_functions(&calls, [&api](uint8_t domain, uint32_t cbid, const char* name) {
      return !is_launch(rule_of(domain, cbid)) && listed(api, name);
    });
  }
  return calls;
}

std::vector<SelectedCall> range_calls() {
  std::vector<SelectedCall> calls;
  for (const auto& r : kRules) {
    if (r.group == CallGroup::profiler) calls.push_back({r.domain, r.cbid});
  }
  return calls;
}

}  // namespace warpsight
