// Launches and waits recorded without CUPTI, for programs with core dumps armed: the driver allows one or the
// other. And launches counted without CUPTI, whose callbacks cost more.
//
// Preloaded (LD_PRELOAD) by `warpsight watch` when it arms dumps and by `warpsight capsule record`. Every way
// to a driver function leads through a look-up by name: the dynamic linker's (for programs that link to
// libcuda), dlsym, and the driver's own cuGetProcAddress, which the CUDA runtime uses. Each gets our function
// for the few names below.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <string.h>

#include <atomic>
#include <initializer_list>

#include "preload/library.h"
#include "preload/rows.h"

#undef cuGetProcAddress
#undef cuMemcpyDtoH
#undef cuMemcpyDtoHAsync
#undef cuMemcpyHtoD
#undef cuMemcpyHtoDAsync

#define WRAPPED extern "C" __attribute__((visibility("default"), used))

using warpsight::Call;
using warpsight::Dimensions;
using warpsight::real_dlsym;

namespace {

// One wrapped function: its exported name, what cuGetProcAddress calls it, whether it is the per-thread
// stream's, and the CUDA version from which on that symbol means this signature.
struct Entry {
  const char* name;
  const char* symbol;
  bool per_thread;
  int since;
  void* wrapper;
  std::atomic<void*> real;
};

Entry* exported_entry(const char* name);

// Called before each launch, as CUPTI's callback would be; null without a listener. Read on the launch path.
using LaunchHook = void (*)(uint32_t cbid, const void* params);
std::atomic<LaunchHook> g_before_launch{nullptr};

void before_launch(uint32_t cbid, const void* params) {
  if (const LaunchHook hook = g_before_launch.load(std::memory_order_acquire)) hook(cbid, params);
}

// The driver's function behind an entry, for programs that found ours through the dynamic linker.
template <class Function>
Function* real_of(const char* name) {
  static_assert(sizeof(Function*) == sizeof(void*), "a code address");
  Entry* entry = exported_entry(name);
  void* real = entry->real.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = warpsight::driver_function(name);
    if (real == nullptr) real = real_dlsym(RTLD_NEXT, name);
    entry->real.store(real, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(real);
}

Dimensions dimensions_of(const CUlaunchConfig* config) {
  Dimensions out = {};
  if (config == nullptr) return out;
  out = {{config->gridDimX, config->gridDimY, config->gridDimZ},
         {config->blockDimX, config->blockDimY, config->blockDimZ},
         {0, 0, 0},
         config->sharedMemBytes};
  for (unsigned i = 0; config->attrs != nullptr && i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& cluster = config->attrs[i].value.clusterDim;
    out.cluster[0] = cluster.x, out.cluster[1] = cluster.y, out.cluster[2] = cluster.z;
  }
  return out;
}

}  // namespace

#define LAUNCH_KERNEL(NAME, CBID)                                                                      \
  WRAPPED CUresult NAME(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                        unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {  \
    static auto* const real = real_of<decltype(NAME)>(#NAME);                                          \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;                                              \
    const NAME##_params params_of_call = {f, gx, gy, gz, bx, by, bz, shared, stream, params, extra};   \
    before_launch(CBID, &params_of_call);                                                              \
    const Call call(CBID);                                                                             \
    const CUresult result = real(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);            \
    call.launched(f, {{gx, gy, gz}, {bx, by, bz}, {0, 0, 0}, shared}, stream, result);                 \
    return result;                                                                                     \
  }
#define LAUNCH_EX(NAME, CBID)                                                                       \
  WRAPPED CUresult NAME(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {  \
    static auto* const real = real_of<decltype(NAME)>(#NAME);                                       \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;                                           \
    const NAME##_params params_of_call = {config, f, params, extra};                                \
    before_launch(CBID, &params_of_call);                                                           \
    const Call call(CBID);                                                                          \
    const CUresult result = real(config, f, params, extra);                                         \
    call.launched(f, dimensions_of(config), config != nullptr ? config->hStream : nullptr, result); \
    return result;                                                                                  \
  }
#define LAUNCH_COOPERATIVE(NAME, CBID)                                                                 \
  WRAPPED CUresult NAME(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                        unsigned bz, unsigned shared, CUstream stream, void** params) {                \
    static auto* const real = real_of<decltype(NAME)>(#NAME);                                          \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;                                              \
    const NAME##_params params_of_call = {f, gx, gy, gz, bx, by, bz, shared, stream, params};          \
    before_launch(CBID, &params_of_call);                                                              \
    const Call call(CBID);                                                                             \
    const CUresult result = real(f, gx, gy, gz, bx, by, bz, shared, stream, params);                   \
    call.launched(f, {{gx, gy, gz}, {bx, by, bz}, {0, 0, 0}, shared}, stream, result);                 \
    return result;                                                                                     \
  }
#define LAUNCH_GRAPH(NAME, CBID)                              \
  WRAPPED CUresult NAME(CUgraphExec graph, CUstream stream) { \
    static auto* const real = real_of<decltype(NAME)>(#NAME); \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;     \
    const NAME##_params params_of_call = {graph, stream};     \
    before_launch(CBID, &params_of_call);                     \
    const Call call(CBID);                                    \
    const CUresult result = real(graph, stream);              \
    call.graph_launched(stream, result);                      \
    return result;                                            \
  }
#define WAIT_FOR(NAME, TYPE, CBID)                            \
  WRAPPED CUresult NAME(TYPE object) {                        \
    static auto* const real = real_of<decltype(NAME)>(#NAME); \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;     \
    const Call call(CBID);                                    \
    const CUresult result = real(object);                     \
    call.waited(object, 0, result);                           \
    return result;                                            \
  }
#define COPY_OUT(NAME, CBID)                                        \
  WRAPPED CUresult NAME(void* to, CUdeviceptr from, size_t bytes) { \
    static auto* const real = real_of<decltype(NAME)>(#NAME);       \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;           \
    const Call call(CBID);                                          \
    const CUresult result = real(to, from, bytes);                  \
    call.waited(to, bytes, result);                                 \
    return result;                                                  \
  }
#define COPY_OUT_ASYNC(NAME, CBID)                                                   \
  WRAPPED CUresult NAME(void* to, CUdeviceptr from, size_t bytes, CUstream stream) { \
    static auto* const real = real_of<decltype(NAME)>(#NAME);                        \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;                            \
    const Call call(CBID);                                                           \
    const CUresult result = real(to, from, bytes, stream);                           \
    call.waited(to, bytes, result);                                                  \
    return result;                                                                   \
  }
#define COPY_IN(NAME, CBID)                                               \
  WRAPPED CUresult NAME(CUdeviceptr to, const void* from, size_t bytes) { \
    static auto* const real = real_of<decltype(NAME)>(#NAME);             \
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;                 \
    const Call call(CBID);                                                \
    const CUresult result = real(to, from, bytes);                        \
    call.waited(from, bytes, result);                                     \
    return result;                                                        \
  }

LAUNCH_KERNEL(cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz)
LAUNCH_EX(cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx)
LAUNCH_EX(cuLaunchKernelEx_ptsz, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz)
LAUNCH_GRAPH(cuGraphLaunch, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch)
LAUNCH_GRAPH(cuGraphLaunch_ptsz, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz)
WAIT_FOR(cuStreamSynchronize, CUstream, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize)
WAIT_FOR(cuStreamSynchronize_ptsz, CUstream, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz)
WAIT_FOR(cuEventSynchronize, CUevent, CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize)
COPY_OUT(cuMemcpyDtoH_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2)
COPY_OUT(cuMemcpyDtoH_v2_ptds, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds)
COPY_OUT_ASYNC(cuMemcpyDtoHAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2)
COPY_OUT_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz)
COPY_IN(cuMemcpyHtoD_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2)
COPY_IN(cuMemcpyHtoD_v2_ptds, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds)

WAIT_FOR(cuCtxSynchronize_v2, CUcontext, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize)

// `warpsight capsule record` counts launches so, which costs less than CUPTI's callbacks.
WRAPPED void warpsight_follow_launches(LaunchHook hook) {
  g_before_launch.store(hook, std::memory_order_release);
}

WRAPPED CUresult cuCtxSynchronize() {
  static auto* const real = real_of<decltype(cuCtxSynchronize)>("cuCtxSynchronize");
  if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const Call call(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize);
  const CUresult result = real();
  call.waited(nullptr, 0, result);
  return result;
}

// The driver's look-up: its answer is kept as the real function and ours is given instead. `per_thread` asks
// for the twin that works on the calling thread's default stream.
static void replace(const char* symbol, void** function, int version, uint64_t flags, CUresult result);

WRAPPED CUresult cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  using Real = CUresult (*)(const char*, void**, int, uint64_t);
  static const auto real = reinterpret_cast<Real>(warpsight::driver_function("cuGetProcAddress"));
  if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = real(symbol, function, version, flags);
  replace(symbol, function, version, flags, result);
  return result;
}

WRAPPED CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  using Real = CUresult (*)(const char*, void**, int, uint64_t, CUdriverProcAddressQueryResult*);
  static const auto real = reinterpret_cast<Real>(warpsight::driver_function("cuGetProcAddress_v2"));
  if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = real(symbol, function, version, flags, status);
  replace(symbol, function, version, flags, result);
  return result;
}

namespace {

#define ENTRY(NAME, SYMBOL, PER_THREAD, SINCE)                                    \
  {                                                                               \
    #NAME, SYMBOL, PER_THREAD, SINCE, reinterpret_cast<void*>(&NAME), { nullptr } \
  }
constexpr int kAlways = 0, kCopies2 = 3020, kContextSynchronize2 = 13000;
// Of one symbol the newest version comes last.
Entry g_entries[] = {
    ENTRY(cuLaunchKernel, "cuLaunchKernel", false, kAlways),
    ENTRY(cuLaunchKernel_ptsz, "cuLaunchKernel", true, kAlways),
    ENTRY(cuLaunchKernelEx, "cuLaunchKernelEx", false, kAlways),
    ENTRY(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", true, kAlways),
    ENTRY(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", false, kAlways),
    ENTRY(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", true, kAlways),
    ENTRY(cuGraphLaunch, "cuGraphLaunch", false, kAlways),
    ENTRY(cuGraphLaunch_ptsz, "cuGraphLaunch", true, kAlways),
    ENTRY(cuStreamSynchronize, "cuStreamSynchronize", false, kAlways),
    ENTRY(cuStreamSynchronize_ptsz, "cuStreamSynchronize", true, kAlways),
    ENTRY(cuEventSynchronize, "cuEventSynchronize", false, kAlways),
    ENTRY(cuMemcpyDtoH_v2, "cuMemcpyDtoH", false, kCopies2),
    ENTRY(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", true, kCopies2),
    ENTRY(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", false, kCopies2),
    ENTRY(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", true, kCopies2),
    ENTRY(cuMemcpyHtoD_v2, "cuMemcpyHtoD", false, kCopies2),
    ENTRY(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", true, kCopies2),
    ENTRY(cuCtxSynchronize, "cuCtxSynchronize", false, kAlways),
    ENTRY(cuCtxSynchronize_v2, "cuCtxSynchronize", false, kContextSynchronize2),
};
#undef ENTRY

constexpr int kProcAddress2 = 12000;
// A later major version may change any function's arguments; its callers get the driver's own function.
constexpr int kFirstUnknown = (CUDA_VERSION / 1000 + 1) * 1000;

Entry* exported_entry(const char* name) {
  for (Entry& entry : g_entries) {
    if (strcmp(entry.name, name) == 0) return &entry;
  }
  return nullptr;
}

// The function that cuGetProcAddress returns for a symbol, for a caller built with `version` of CUDA.
Entry* meant_entry(const char* symbol, int version, bool per_thread) {
  Entry* meant = nullptr;
  if (version >= kFirstUnknown) return nullptr;
  for (Entry& entry : g_entries) {
    if (strcmp(entry.symbol, symbol) != 0 || version < entry.since) continue;
    // functions without a stream have no variant
    if (entry.per_thread == per_thread || (!entry.per_thread && (meant == nullptr || !meant->per_thread)))
      meant = &entry;
  }
  return meant;
}

// The driver and its debugger also look up functions for their own purposes: they get the unwrapped ones.
bool is_drivers(const void* caller) {
  Dl_info place;
  if (caller == nullptr || dladdr(caller, &place) == 0 || place.dli_fname == nullptr) return false;
  const char* slash = strrchr(place.dli_fname, '/');
  const char* file = slash != nullptr ? slash + 1 : place.dli_fname;
  for (const char* name : {"libcuda.so", "libcudadebugger", "libnvidia"}) {
    if (strncmp(file, name, strlen(name)) == 0) return true;
  }
  return false;
}

// Ours for a function of the driver that was found by its exported name; nullptr when it is not wrapped.
void* wrapper_of(void* handle, const char* name, const void* caller) {
  void* look_up = strcmp(name, "cuGetProcAddress") == 0      ? reinterpret_cast<void*>(&cuGetProcAddress)
                  : strcmp(name, "cuGetProcAddress_v2") == 0 ? reinterpret_cast<void*>(&cuGetProcAddress_v2)
                                                             : nullptr;
  Entry* entry = look_up == nullptr ? exported_entry(name) : nullptr;
  if ((look_up == nullptr && entry == nullptr) || is_drivers(caller)) return nullptr;
  if (look_up != nullptr) return real_dlsym(handle, name) != nullptr ? look_up : nullptr;
  void* real = real_dlsym(handle, name);
  if (real == nullptr) return nullptr;
  if (real != entry->wrapper) entry->real.store(real, std::memory_order_relaxed);
  return entry->wrapper;
}

}  // namespace

static void replace(const char* symbol, void** function, int version, uint64_t flags, CUresult result) {
  if (result != CUDA_SUCCESS || function == nullptr || *function == nullptr || symbol == nullptr) return;
  if (strcmp(symbol, "cuGetProcAddress") == 0) {
    *function = version >= kProcAddress2 ? reinterpret_cast<void*>(&cuGetProcAddress_v2)
                                         : reinterpret_cast<void*>(&cuGetProcAddress);
    return;
  }
  Entry* entry = meant_entry(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  if (entry == nullptr || *function == entry->wrapper) return;
  entry->real.store(*function, std::memory_order_relaxed);
  *function = entry->wrapper;
}

// For every other name a jump, not a call: RTLD_NEXT means "after the caller", whom a frame of ours would
// hide.
WRAPPED void* dlsym(void* handle, const char* name) noexcept {
  if (name[0] == 'c' && name[1] == 'u') {
    if (void* wrapper = wrapper_of(handle, name, __builtin_return_address(0))) return wrapper;
  }
  return real_dlsym(handle, name);
}
