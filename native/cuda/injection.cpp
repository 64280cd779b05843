// How the recorder gets into a process: the driver's injection entry, or a late start by the runtime.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "cuda/cuda.h"
#include "cuda/functions.h"
#include "cuda/recorder.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

std::atomic<bool> g_registered{false};  // somebody has registered the recorder, or is about to

CudaRecorder& recorder() {
  static CudaRecorder* const value =
      new CudaRecorder;  // never destroyed: callbacks outlive static destructors
  return *value;
}

// The driver has been told to load us but is not initialized yet, and will call InitializeInjection itself at
// a better time. An initialized driver will not: ws.record sets the variable in a running program for its
// children.
bool driver_will_inject(void* cuda) {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || strstr(path, "warpsight") == nullptr) return false;
  const auto count = reinterpret_cast<CUresult (*)(int*)>(dlsym(cuda, "cuDeviceGetCount"));
  int devices = 0;
  return count != nullptr && count(&devices) == CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace

bool register_cuda_backend() {
  if (g_registered.load()) return true;
  void* cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (cuda == nullptr) return false;
  const bool injected_later = driver_will_inject(cuda);
  dlclose(cuda);
  if (injected_later) return false;
  if (!claim_profiler(Profiler::cupti))
    return true;  // a libcuda next to MACA's runtime, whose recorder is active
  if (!g_registered.exchange(true)) add_recorder(&recorder());
  return true;
}

}  // namespace warpsight

// Called by the CUDA driver inside cuInit when CUDA_INJECTION64_PATH names this library. Anything but 1 would
// make the driver complain; a process that does not record simply gets nothing.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace warpsight;
  if (!claim_profiler(Profiler::cupti) || g_registered.exchange(true)) return 1;
  if (!ensure_runtime()) {
    g_registered.store(false);  // somebody may attach later
    return 1;
  }
  recorder().set_injecting(true);
  add_recorder(&recorder());
  recorder().set_injecting(false);
  return 1;
}
