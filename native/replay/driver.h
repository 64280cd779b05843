// The CUDA driver's functions that a replay calls, found in libcuda.so.1 when it starts.
#pragma once
#include <cuda.h>

#include <type_traits>

namespace warpsight::replay {

// X(member, name in the library, type of its first version in cuda.h): names carry their version, as the
// library's do.
#define WARPSIGHT_DRIVER_FUNCTIONS(X)                                                                        \
  X(init, "cuInit", CUresult(unsigned))                                                                      \
  X(error_name, "cuGetErrorName", CUresult(CUresult, const char**))                                          \
  X(device_count, "cuDeviceGetCount", CUresult(int*))                                                        \
  X(device_get, "cuDeviceGet", CUresult(CUdevice*, int))                                                     \
  X(device_name, "cuDeviceGetName", CUresult(char*, int, CUdevice))                                          \
  X(device_attribute, "cuDeviceGetAttribute", CUresult(int*, CUdevice_attribute, CUdevice))                  \
  X(context_retain, "cuDevicePrimaryCtxRetain", CUresult(CUcontext*, CUdevice))                              \
  X(context_set, "cuCtxSetCurrent", CUresult(CUcontext))                                                     \
  X(context_wait, "cuCtxSynchronize", CUresult())                                                            \
  X(set_limit, "cuCtxSetLimit", CUresult(CUlimit, size_t))                                                   \
  X(memory_info, "cuMemGetInfo_v2", CUresult(size_t*, size_t*))                                              \
  X(reserve, "cuMemAddressReserve", CUresult(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)) \
  X(unreserve, "cuMemAddressFree", CUresult(CUdeviceptr, size_t))                                            \
  X(create, "cuMemCreate",                                                                                   \
    CUresult(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))         \
  X(map, "cuMemMap",                                                                                         \
    CUresult(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))                 \
  X(set_access, "cuMemSetAccess", CUresult(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))             \
  X(granularity, "cuMemGetAllocationGranularity",                                                            \
    CUresult(size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags))                         \
  X(register_host, "cuMemHostRegister_v2", CUresult(void*, size_t, unsigned))                                \
  X(host_pointer, "cuMemHostGetDevicePointer_v2", CUresult(CUdeviceptr*, void*, unsigned))                   \
  X(allocate, "cuMemAlloc_v2", CUresult(CUdeviceptr*, size_t))                                               \
  X(allocate_host, "cuMemHostAlloc", CUresult(void**, size_t, unsigned))                                     \
  X(to_device, "cuMemcpyHtoD_v2", CUresult(CUdeviceptr, const void*, size_t))                                \
  X(to_device_later, "cuMemcpyHtoDAsync_v2", CUresult(CUdeviceptr, const void*, size_t, CUstream))           \
  X(to_host, "cuMemcpyDtoH_v2", CUresult(void*, CUdeviceptr, size_t))                                        \
  X(to_host_later, "cuMemcpyDtoHAsync_v2", CUresult(void*, CUdeviceptr, size_t, CUstream))                   \
  X(copy_later, "cuMemcpyDtoDAsync_v2", CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream))                \
  X(copy_2d_later, "cuMemcpy2DAsync_v2", CUresult(const CUDA_MEMCPY2D*, CUstream))                           \
  X(fill, "cuMemsetD8_v2", CUresult(CUdeviceptr, unsigned char, size_t))                                     \
  X(fill_1, "cuMemsetD2D8Async", CUresult(CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream))     \
  X(fill_2, "cuMemsetD2D16Async", CUresult(CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream))   \
  X(fill_4, "cuMemsetD2D32Async", CUresult(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream))         \
  X(load_module, "cuModuleLoadData", CUresult(CUmodule*, const void*))                                       \
  X(get_function, "cuModuleGetFunction", CUresult(CUfunction*, CUmodule, const char*))                       \
  X(get_global, "cuModuleGetGlobal_v2", CUresult(CUdeviceptr*, size_t*, CUmodule, const char*))              \
  X(set_attribute, "cuFuncSetAttribute", CUresult(CUfunction, CUfunction_attribute, int))                    \
  X(launch, "cuLaunchKernelEx", CUresult(const CUlaunchConfig*, CUfunction, void**, void**))                 \
  X(stream_create, "cuStreamCreateWithPriority", CUresult(CUstream*, unsigned, int))                         \
  X(stream_wait_event, "cuStreamWaitEvent", CUresult(CUstream, CUevent, unsigned))                           \
  X(stream_wait_value, "cuStreamWaitValue32_v2", CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned))      \
  X(event_create, "cuEventCreate", CUresult(CUevent*, unsigned))                                             \
  X(event_record, "cuEventRecord", CUresult(CUevent, CUstream))                                              \
  X(event_elapsed, "cuEventElapsedTime", CUresult(float*, CUevent, CUevent))                                 \
  X(begin_capture, "cuStreamBeginCapture_v2", CUresult(CUstream, CUstreamCaptureMode))                       \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                               \
    CUresult(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*))         \
  X(capture_after, "cuStreamUpdateCaptureDependencies", CUresult(CUstream, CUgraphNode*, size_t, unsigned))  \
  X(end_capture, "cuStreamEndCapture", CUresult(CUstream, CUgraph*))                                         \
  X(instantiate, "cuGraphInstantiateWithFlags", CUresult(CUgraphExec*, CUgraph, unsigned long long))         \
  X(launch_graph, "cuGraphLaunch", CUresult(CUgraphExec, CUstream))

struct Driver {
#define WARPSIGHT_MEMBER(member, name, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  WARPSIGHT_DRIVER_FUNCTIONS(WARPSIGHT_MEMBER)
#undef WARPSIGHT_MEMBER

  // False, with the name of the missing function, if the machine has no driver or too old a driver.
  bool load(const char** missing);
};

}  // namespace warpsight::replay
