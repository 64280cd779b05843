#include "capsule/driver.h"

#include <dlfcn.h>

#include "cuda/functions.h"

namespace warpsight {
namespace {

CapsuleDriver g_driver;
thread_local bool t_own = false;

}  // namespace

const CapsuleDriver& cu() { return g_driver; }

// find_cupti.cpp asks the recorder's table for the driver's version if the file name does not contain it;
// here it does.
const DriverFunctions& driver() {
  static const DriverFunctions none = {};
  return none;
}

bool load_capsule_driver(std::string* why) {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto find = [library, why](const char* name) {
    void* found = library != nullptr ? dlsym(library, name) : nullptr;
    if (found == nullptr && why->empty())
      *why = std::string("the driver has no ") + name + ": cutting out needs a driver of CUDA 12.4 or newer";
    return found;
  };
#define WARPSIGHT_LOOK_UP(name) g_driver.name = reinterpret_cast<decltype(g_driver.name)>(find(#name));
  WARPSIGHT_CAPSULE_FUNCTIONS(WARPSIGHT_LOOK_UP)
#undef WARPSIGHT_LOOK_UP
#define WARPSIGHT_NAMED(member, symbol) \
  g_driver.member = reinterpret_cast<decltype(g_driver.member)>(find(symbol));
  WARPSIGHT_NAMED(synchronize, "cuCtxSynchronize")
  WARPSIGHT_NAMED(total_memory, "cuDeviceTotalMem_v2")
  WARPSIGHT_NAMED(memory_info, "cuMemGetInfo_v2")
  WARPSIGHT_NAMED(allocate, "cuMemAlloc_v2")
  WARPSIGHT_NAMED(free, "cuMemFree_v2")
  WARPSIGHT_NAMED(pin, "cuMemHostRegister_v2")
  WARPSIGHT_NAMED(device_to_device, "cuMemcpyDtoDAsync_v2")
  WARPSIGHT_NAMED(device_to_host, "cuMemcpyDtoHAsync_v2")
  WARPSIGHT_NAMED(host_to_device, "cuMemcpyHtoDAsync_v2")
  WARPSIGHT_NAMED(module_global, "cuModuleGetGlobal_v2")
  WARPSIGHT_NAMED(elapsed, "cuEventElapsedTime")
  WARPSIGHT_NAMED(kernel_node, "cuGraphKernelNodeGetParams_v2")
  WARPSIGHT_NAMED(set_kernel_node, "cuGraphKernelNodeSetParams_v2")
  WARPSIGHT_NAMED(dependencies, "cuGraphNodeGetDependencies")
  WARPSIGHT_NAMED(device_uuid, "cuDeviceGetUuid_v2")
#undef WARPSIGHT_NAMED
  return why->empty();
}

std::string failure(const char* what, CUresult result) {
  return result == CUDA_SUCCESS ? ""
                                : std::string(what) + " failed with CUDA error " + std::to_string(result);
}

OwnCalls::OwnCalls() : outer_(t_own) {
  t_own = true;
  if (!outer_) g_driver.cuThreadExchangeStreamCaptureMode(&mode_);
}

OwnCalls::~OwnCalls() {
  if (!outer_) g_driver.cuThreadExchangeStreamCaptureMode(&mode_);
  t_own = outer_;
}

bool OwnCalls::here() { return t_own; }

InContext::InContext(CUcontext context) {
  g_driver.cuCtxGetCurrent(&outer_);
  g_driver.cuCtxSetCurrent(context);
}

InContext::~InContext() { g_driver.cuCtxSetCurrent(outer_); }

}  // namespace warpsight
