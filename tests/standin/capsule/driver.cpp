// The driver: memory, streams, events, modules and launches. Work is done when it is asked for.
#include <sys/mman.h>

#include <cstdio>

#include "../cubin.h"
#include "driver.h"

namespace standin {

char* g_variables = nullptr;
std::string g_cubin;
std::mutex g_memory_mutex;
std::map<uint64_t, uint64_t> g_memory;
std::atomic<int> g_questions{0}, g_pinned{0};
std::atomic<bool> g_broken{false};
thread_local CUcontext t_context = nullptr;
namespace {
std::atomic<int> g_captures{0};  // under way, in other streams than work is put in
void* g_freed = nullptr;         // what was freed last is made again first
}  // namespace

uint64_t map(uint64_t size) {
  std::lock_guard<std::mutex> lock(g_memory_mutex);
  void* made = mmap(g_freed, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_memory[reinterpret_cast<uint64_t>(made)] = size;
  return reinterpret_cast<uint64_t>(made);
}

}  // namespace standin

using namespace standin;

// --- what only answers ---
#define ANSWER(name, arguments, ...) \
  EXPORT CUresult name arguments {   \
    __VA_ARGS__;                     \
    return CUDA_SUCCESS;             \
  }
#define IN_CONTEXT(name, arguments, ...) ANSWER(name, arguments, NEED_CONTEXT; __VA_ARGS__)
ANSWER(cuCtxGetCurrent, (CUcontext * c), *c = t_context)
ANSWER(cuCtxSetCurrent, (CUcontext c), t_context = c)
IN_CONTEXT(cuCtxGetDevice, (CUdevice * d), *d = 0)
IN_CONTEXT(cuCtxGetLimit, (size_t* v, CUlimit), *v = 1024)
ANSWER(cuDeviceGetName, (char* text, int size, CUdevice),
       snprintf(text, static_cast<size_t>(size), "Stand-in"))
ANSWER(cuDeviceGetAttribute, (int* v, CUdevice_attribute, CUdevice), *v = 9)
ANSWER(cuDeviceGetUuid_v2, (CUuuid*, CUdevice))
ANSWER(cuDeviceTotalMem_v2, (size_t* v, CUdevice), *v = 16ull << 30)
ANSWER(cuDriverGetVersion, (int* v), *v = 13000)
IN_CONTEXT(cuCtxSynchronize, (), g_broken = g_broken || g_captures != 0)
IN_CONTEXT(cuEventCreate, (CUevent * e, unsigned), *e = reinterpret_cast<CUevent>(1))
ANSWER(cuEventElapsedTime, (float* v, CUevent, CUevent), *v = g_milliseconds + g_loading)
ANSWER(cuFuncGetAttribute, (int* v, CUfunction_attribute, CUfunction), *v = 0)
ANSWER(cuFuncLoad, (CUfunction f), load(f))
ANSWER(cuFuncGetModule, (CUmodule * m, CUfunction), *m = kModule)
ANSWER(cuFuncGetName, (const char** n, CUfunction f), *n = kernel_of(f)->name)
ANSWER(cuModuleGetFunctionCount, (unsigned* n, CUmodule), *n = 2)
ANSWER(cuModuleEnumerateFunctions, (CUfunction * f, unsigned n, CUmodule),
       for (unsigned i = 0; i < n; ++i) f[i] = reinterpret_cast<CUfunction>(&g_kernels[i]))
ANSWER(cuKernelGetAttribute, (int* v, CUfunction_attribute, CUkernel, CUdevice), *v = 0)
ANSWER(cuKernelGetFunction, (CUfunction * f, CUkernel k), *f = reinterpret_cast<CUfunction>(k))
ANSWER(cuKernelGetName, (const char** n, CUkernel k), *n = reinterpret_cast<Kernel*>(k)->name)
IN_CONTEXT(cuMemGetInfo_v2, (size_t* f, size_t* a), *a = 16ull << 30; *f = asked("no_room") ? 0 : 8ull << 30)
IN_CONTEXT(cuMemHostRegister_v2, (void*, size_t, unsigned), ++g_pinned)
IN_CONTEXT(cuMemHostUnregister, (void*), --g_pinned)
IN_CONTEXT(cuStreamCreate, (CUstream * s, unsigned), *s = reinterpret_cast<CUstream>(0x50))
ANSWER(cuStreamGetFlags, (CUstream, unsigned* v), *v = 0)
ANSWER(cuStreamGetPriority, (CUstream, int* v), *v = 0)
ANSWER(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus* v), *v = CU_STREAM_CAPTURE_STATUS_NONE;
       ++g_questions)
ANSWER(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode*), ++g_questions)
EXPORT CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) {
  return asked("foreign") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuEventQuery(CUevent) { return state_of_work(); }
EXPORT CUresult cuEventSynchronize(CUevent) { return state_of_work(); }
EXPORT CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t* offset, size_t* size) {
  if (i >= kernel_of(f)->params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel_of(f)->params[i].first, *size = kernel_of(f)->params[i].second;
  return CUDA_SUCCESS;
}

// --- memory ---
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  CALL(cuMemAlloc_v2, address, size);
  *address = map(size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  CALL(cuMemAllocManaged, address, size, flags);
  *address = map(size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  CALL(cuMemFree_v2, address);
  std::lock_guard<std::mutex> lock(g_memory_mutex);
  munmap(g_freed = reinterpret_cast<void*>(address), g_memory[address]);
  g_memory.erase(address);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  CALL(cuMemHostAlloc, address, size, flags);
  return *address = malloc(size), CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void* address) { return free(address), CUDA_SUCCESS; }
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  CALL(cuMemcpyDtoDAsync_v2, to, from, size, stream);
  const auto variables = reinterpret_cast<CUdeviceptr>(g_variables);
  if (asked("apart") && from >= variables && from < variables + 4096 && size > 16)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  CALL(cuMemcpyDtoHAsync_v2, to, from, size, stream);
  memcpy(to, reinterpret_cast<void*>(from), size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  CALL(cuMemcpyHtoDAsync_v2, to, from, size, stream);
  memcpy(reinterpret_cast<void*>(to), from, size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  CALL(cuMemsetD8Async, to, value, count, stream);
  memset(reinterpret_cast<void*>(to), value, count);
  return CUDA_SUCCESS;
}

// --- streams, events, host functions ---
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  CALL(cuStreamSynchronize, stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  CALL(cuEventRecord, event, stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  CALL(cuStreamWaitEvent, stream, event, flags);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  CALL(cuStreamBeginCapture_v2, stream, mode);
  return ++g_captures, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  CALL(cuStreamEndCapture, stream, graph);
  return --g_captures, CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  CALL(cuLaunchHostFunc, stream, function, data);
  return CUDA_SUCCESS;
}

// --- modules and launches ---
EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (asked("twins") && image == g_cubin.data()) {
    const std::string twin = standin::cubin({"add_listed", "of_another_library"}, 't');
    tell_loaded(1, g_cubin.data(), g_cubin.size());
    tell_loaded(2, twin.data(), twin.size());
    return *module = kModule, CUDA_SUCCESS;
  }
  CALL(cuModuleLoadData, module, image);
  *module = kModule;
  const char* const source = static_cast<const char*>(image);
  if (strncmp(source, "// add_listed", 13) == 0) image = g_cubin.data();
  if (memcmp(image,
             "\x7f"
             "ELF",
             4) != 0)
    return CUDA_SUCCESS;  // PTX of ours
  tell_loaded(1, static_cast<const char*>(image), strtoull(getenv("CUBIN_BYTES"), nullptr, 10));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  for (Kernel& kernel : g_kernels)
    if (strcmp(kernel.name, name) == 0)
      return *function = reinterpret_cast<CUfunction>(&kernel), CUDA_SUCCESS;
  return CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* size, CUmodule, const char* name) {
  const std::map<std::string, std::pair<uint64_t, size_t>> known = {
      {"scale", {kScale, 4}}, {"limits", {kLimits, 16}}, {"target", {kTarget, 8}}};
  const auto found = known.find(name);
  if (found == known.end()) return CUDA_ERROR_NOT_FOUND;
  *address = reinterpret_cast<uint64_t>(g_variables) + found->second.first;
  *size = found->second.second;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void** arguments,
                               void** extra) {
  NEED_CONTEXT;
  const cuLaunchKernel_params params = {f, x, y, z, bx, by, bz, shared, stream, arguments, extra};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &params, kernel_of(f)->name);
  const bool slow = load(f) || (asked("slow_first") && first_launch(f));
  if (strncmp(kernel_of(f)->name, "ws_", 3) != 0) g_loading = slow && !gated() ? 100.0f : 0.0f;
  run(f, arguments);
  return CUDA_SUCCESS;
}
