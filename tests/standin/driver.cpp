// The part of libcuda the recorder and the program use.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "standin.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace standin;  // NOLINT

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
  snprintf(text, static_cast<size_t>(size), "0000:1b:00.0");
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
