// The functions of the CUDA driver that cutting out uses, found at run time, and the guard for calling them.
#pragma once

#include <cuda.h>

#include <string>

namespace warpsight {

#define WARPSIGHT_CAPSULE_FUNCTIONS(X) \
  X(cuCtxGetCurrent)                   \
  X(cuCtxSetCurrent)                   \
  X(cuCtxGetDevice)                    \
  X(cuCtxGetLimit)                     \
  X(cuDeviceGetName)                   \
  X(cuDeviceGetAttribute)              \
  X(cuDriverGetVersion)                \
  X(cuEventCreate)                     \
  X(cuEventQuery)                      \
  X(cuEventRecord)                     \
  X(cuFuncGetAttribute)                \
  X(cuFuncGetModule)                   \
  X(cuFuncLoad)                        \
  X(cuFuncGetName)                     \
  X(cuFuncGetParamInfo)                \
  X(cuGraphClone)                      \
  X(cuGraphDestroy)                    \
  X(cuGraphGetNodes)                   \
  X(cuGraphMemcpyNodeGetParams)        \
  X(cuGraphMemsetNodeGetParams)        \
  X(cuGraphKernelNodeGetAttribute)     \
  X(cuGraphNodeFindInClone)            \
  X(cuGraphNodeGetType)                \
  X(cuKernelGetAttribute)              \
  X(cuKernelGetFunction)               \
  X(cuKernelGetName)                   \
  X(cuLaunchKernel)                    \
  X(cuMemFreeHost)                     \
  X(cuMemHostAlloc)                    \
  X(cuMemHostUnregister)               \
  X(cuMemsetD8Async)                   \
  X(cuModuleEnumerateFunctions)        \
  X(cuModuleGetFunction)               \
  X(cuModuleGetFunctionCount)          \
  X(cuModuleLoadData)                  \
  X(cuPointerGetAttribute)             \
  X(cuStreamCreate)                    \
  X(cuStreamGetFlags)                  \
  X(cuStreamGetPriority)               \
  X(cuStreamIsCapturing)               \
  X(cuStreamSynchronize)               \
  X(cuThreadExchangeStreamCaptureMode)

// Functions that CUDA 13's header renames.
struct CapsuleDriver {
#define WARPSIGHT_MEMBER(name) decltype(&::name) name;
  WARPSIGHT_CAPSULE_FUNCTIONS(WARPSIGHT_MEMBER)
#undef WARPSIGHT_MEMBER
  CUresult (*synchronize)();
  CUresult (*total_memory)(size_t*, CUdevice);
  CUresult (*memory_info)(size_t*, size_t*);
  CUresult (*allocate)(CUdeviceptr*, size_t);
  CUresult (*free)(CUdeviceptr);
  CUresult (*pin)(void*, size_t, unsigned);
  CUresult (*device_to_device)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  CUresult (*device_to_host)(void*, CUdeviceptr, size_t, CUstream);
  CUresult (*host_to_device)(CUdeviceptr, const void*, size_t, CUstream);
  CUresult (*module_global)(CUdeviceptr*, size_t*, CUmodule, const char*);
  CUresult (*elapsed)(float*, CUevent, CUevent);
  CUresult (*kernel_node)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2*);
  CUresult (*set_kernel_node)(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v2*);
  CUresult (*dependencies)(CUgraphNode, CUgraphNode*, size_t*);
  CUresult (*device_uuid)(CUuuid*, CUdevice);
};

// Loads the table; false, with `why`, when the driver lacks one.
bool load_capsule_driver(std::string* why);
const CapsuleDriver& cu();

// "" for success, otherwise the failed call and the error's number.
std::string failure(const char* what, CUresult result);

// While it lives, this thread's calls to the driver are ours: their callbacks are ignored, and they are
// allowed although the program captures a graph.
class OwnCalls {
 public:
  OwnCalls();
  ~OwnCalls();
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;
  static bool here();

 private:
  const bool outer_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// During its lifetime, this context is current on the thread: our threads start without one, and programs
// exit, or free memory, on threads that have none or another.
class InContext {
 public:
  explicit InContext(CUcontext context);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  CUcontext outer_ = nullptr;
};

}  // namespace warpsight
