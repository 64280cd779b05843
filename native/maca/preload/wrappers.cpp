// Loads the recorder into programs that use MACA. Preloaded (LD_PRELOAD) by `warpsight record --backend maca`
// only: there is no known way to load a tool into such a program from outside. MCPTI must know us before the
// program creates its first context. If a program links to the runtime, the runtime is loaded when this
// library's constructor runs, after the runtime's own. If it loads the runtime later (as Python does), its
// first call passes through here: the functions below are those that programs begin with. They are found
// before the runtime's because preloaded libraries come first, and dlsym covers programs that look functions
// up. Each call is forwarded unchanged.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <initializer_list>

#define WRAPPED extern "C" __attribute__((visibility("default"), used))

namespace {

using Dlsym = void* (*)(void*, const char*);

constexpr int kNoSuchFunction = 1;  // mcErrorInvalidValue

Dlsym find_dlsym() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Dlsym>(found);
  }
  abort();  // no C library without it can have loaded us
}

void* real_dlsym(void* handle, const char* name) {
  static const Dlsym real = find_dlsym();
  return real(handle, name);
}

std::atomic<bool> g_started{false};  // the recorder was started, or cannot be
thread_local bool t_starting = false;

int take_runtime(dl_phdr_info* info, size_t, void* path) {
  constexpr char kName[] = "libmcruntime.so";
  const char* slash = strrchr(info->dlpi_name, '/');
  if (strncmp(slash != nullptr ? slash + 1 : info->dlpi_name, kName, strlen(kName)) != 0) return 0;
  *static_cast<const char**>(path) = info->dlpi_name;
  return 1;
}

// MACA's runtime, whatever version its file name ends with; nullptr until it is loaded.
void* runtime() {
  const char* path = nullptr;
  return dl_iterate_phdr(take_runtime, &path) != 0 ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
}

// Tells the recorder, once, that the runtime is there.
void start() {
  if (g_started.load(std::memory_order_acquire) || t_starting || runtime() == nullptr) return;
  t_starting = true;  // the recorder's own calls pass through here too
  const char* path = getenv("WARPSIGHT_LIBRARY");
  void* library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  auto* loaded =
      library != nullptr ? reinterpret_cast<void (*)()>(real_dlsym(library, "ws_maca_loaded")) : nullptr;
  if (loaded != nullptr) loaded();
  g_started.store(true, std::memory_order_release);
  t_starting = false;
}

__attribute__((constructor)) void at_load() { start(); }

// The runtime's function, even if the runtime is in no global scope.
void* real_of(const char* name) {
  if (void* next = real_dlsym(RTLD_NEXT, name)) return next;
  void* library = runtime();
  return library != nullptr ? real_dlsym(library, name) : nullptr;
}

}  // namespace

// Functions of up to six integer or pointer arguments: all of them travel in registers, whatever their types.
#define FIRST_CALL(NAME)                                                                                     \
  WRAPPED int NAME(long a, long b, long c, long d, long e, long f) {                                         \
    static auto* const real = reinterpret_cast<int (*)(long, long, long, long, long, long)>(real_of(#NAME)); \
    start();                                                                                                 \
    return real != nullptr ? real(a, b, c, d, e, f) : kNoSuchFunction;                                       \
  }
FIRST_CALL(mcInit)
FIRST_CALL(mcDriverGetVersion)
FIRST_CALL(mcRuntimeGetVersion)
FIRST_CALL(mcGetDevice)
FIRST_CALL(mcGetDeviceCount)
FIRST_CALL(mcGetDeviceProperties)
FIRST_CALL(mcSetDevice)
FIRST_CALL(mcDeviceGet)
FIRST_CALL(mcDeviceGetAttribute)
FIRST_CALL(mcDeviceGetCount)
FIRST_CALL(mcDeviceGetName)
FIRST_CALL(mcDevicePrimaryCtxRetain)
FIRST_CALL(mcDeviceSynchronize)
FIRST_CALL(mcCtxCreate)
FIRST_CALL(mcCtxGetCurrent)
FIRST_CALL(mcCtxSetCurrent)
FIRST_CALL(mcMalloc)
FIRST_CALL(mcMallocAsync)
FIRST_CALL(mcMallocHost)
FIRST_CALL(mcMallocManaged)
FIRST_CALL(mcHostAlloc)
FIRST_CALL(mcFree)
FIRST_CALL(mcMemGetInfo)
FIRST_CALL(mcMemcpy)
FIRST_CALL(mcMemset)
FIRST_CALL(mcModuleLoad)
FIRST_CALL(mcModuleLoadData)
FIRST_CALL(mcStreamCreate)
FIRST_CALL(mcStreamCreateWithFlags)
FIRST_CALL(mcStreamCreateWithPriority)
FIRST_CALL(mcEventCreate)
FIRST_CALL(mcEventCreateWithFlags)

// A jump, not a call: RTLD_NEXT means "after the caller", whom a frame of ours would hide.
WRAPPED void* dlsym(void* handle, const char* name) noexcept {
  if (name[0] == 'm' && name[1] == 'c') start();
  return real_dlsym(handle, name);
}
