// The part of libcuda the recorder and the program use.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "standin.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace standin;  // NOLINT
bool dump_taken();        // dumps.cpp

namespace {
std::atomic<bool> g_initialised{false};
}

EXPORT CUresult cuInit(unsigned flags) {
  if (!g_initialised.exchange(true)) {
    if (const char* path = getenv("CUDA_INJECTION64_PATH")) {
      void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
      if (library == nullptr) fprintf(stderr, "standin: %s\n", dlerror());
      auto* entry =
          library != nullptr ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection")) : nullptr;
      if (entry == nullptr || entry() != 1) violation("InitializeInjection failed");
    }
  }
  serve_dump_requests();
  cuInit_params params = {flags};
  Call call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuInit, "cuInit", &params, nullptr);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int* version) {
  cuDriverGetVersion_params params = {version};
  Call call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion, "cuDriverGetVersion",
            &params, nullptr);
  *version = static_cast<int>(option("driver", 13000));
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int* count) {
  if (!g_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  return *count = 1, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice) {
  snprintf(text, static_cast<size_t>(size), "0000:1b:00.%ld", option("pci", 0));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE ? 3201000 : 2048;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = g_initialised.load();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return *context = reinterpret_cast<CUcontext>(0x1000), CUDA_SUCCESS;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return *mode = CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize() {
  while (anything_stuck()) usleep(2000);
  return dump_taken() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  cuDeviceGetMemPool_params params = {pool, device};
  Call call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuDeviceGetMemPool, "cuDeviceGetMemPool",
            &params, nullptr);
  return *pool = reinterpret_cast<CUmemoryPool>(0x800), CUDA_SUCCESS;
}
EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute attribute, void* value) {
  *static_cast<cuuint64_t*>(value) = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? 1 << 20 : 192;
  return CUDA_SUCCESS;
}

// Functions of the stand-in are their names.
EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  return *name = reinterpret_cast<const char*>(function), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned, CUstream stream, void**,
                               void**) {
  cuLaunchKernel_params params = {};
  params.gridDimX = x, params.gridDimY = y, params.gridDimZ = z;
  params.blockDimX = block_x, params.blockDimY = block_y, params.blockDimZ = block_z;
  params.hStream = stream;
  const char* name = reinterpret_cast<const char*>(function);
  Call call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &params,
            name);
  record_kernel(name, call.correlation(), 7, 0);
  return CUDA_SUCCESS;
}
#undef cuGetProcAddress
EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult* status) {
  static void* const self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  *function = dlsym(self, symbol);
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
