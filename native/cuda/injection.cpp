// How the recorder gets into a process: the driver's injection entry, or a late start by the runtime.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "cuda/cuda.h"
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

// The driver was told to load us and will call InitializeInjection itself, at a better moment than now.
bool driver_will_inject() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  return path != nullptr && strstr(path, "warpsight") != nullptr;
}

}  // namespace

bool register_cuda_backend() {
  if (g_registered.load() || driver_will_inject()) return true;
  void* cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (cuda == nullptr) return false;
  dlclose(cuda);
  if (!g_registered.exchange(true)) add_recorder(&recorder());
  return true;
}

}  // namespace warpsight

// Called by the CUDA driver inside cuInit when CUDA_INJECTION64_PATH names this library. Anything but 1 would
// make the driver complain; a process that does not record simply gets nothing.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace warpsight;
  if (g_registered.exchange(true)) return 1;
  recorder().set_injected();
  if (ensure_runtime()) add_recorder(&recorder());
  return 1;
}
