// A scripted stand-in for libcuda.so.1, as far as memory stress calls it, and the program that it is injected
// into. Each launch of the stressing kernel is a line of the file STANDIN_LAUNCHES.
//
// Program: COUNT waits until so many kernels were launched. STANDIN=inactive: there is no primary context.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sanitizer/stress_kernel.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
std::atomic<uint64_t> g_launched{0};
constexpr int kSuccess = 0, kNoMemory = 2;
}  // namespace

EXPORT int cuDeviceGetCount(int* count) { return *count = 1, kSuccess; }
EXPORT int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  const char* text = getenv("STANDIN");
  return *flags = 0, *active = text == nullptr || strcmp(text, "inactive") != 0, kSuccess;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &g_launched, kSuccess; }
EXPORT int cuCtxSetCurrent(void*) { return kSuccess; }
EXPORT int cuCtxGetStreamPriorityRange(int* low, int* high) { return *low = 0, *high = -5, kSuccess; }
EXPORT int cuModuleLoadData(void** module, const void* image) {
  return *module = &g_launched,
         strstr(static_cast<const char*>(image), "ws_stress") != nullptr ? kSuccess : 200;
}
EXPORT int cuModuleGetFunction(void** function, void*, const char*) {
  return *function = &g_launched, kSuccess;
}
// A module's variable: where its launches are.
extern "C" __attribute__((visibility("default"))) const void* standin_places;
const void* standin_places = nullptr;
EXPORT int cuModuleGetGlobal_v2(const void*** address, size_t* bytes, void*, const char* name) {
  if (strcmp(name, "ws_places") != 0) return 500;
  return *address = &standin_places, *bytes = sizeof standin_places, kSuccess;
}
EXPORT int cuFuncSetAttribute(void*, int, int) { return kSuccess; }
EXPORT int cuDeviceGetAttribute(int* value, int, int) { return *value = 100, kSuccess; }
EXPORT int cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  return *memory = 4096, bytes > (32u << 20) ? kNoMemory : kSuccess;  // short of memory
}
EXPORT int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return *stream = &g_launched, flags == 1 && priority == 0 ? kSuccess : 1;
}
EXPORT int cuStreamQuery(void*) { return kSuccess; }
EXPORT int cuThreadExchangeStreamCaptureMode(int*) { return kSuccess; }
EXPORT int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                          unsigned shared, void*, void** arguments, void**) {
  const auto& asked = *static_cast<const WsStress*>(arguments[1]);
  FILE* file = fopen(getenv("STANDIN_LAUNCHES"), "a");
  fprintf(file, "%u %u %u %llu %u %u %u %u %u\n", blocks, threads, shared, asked.ns, asked.seed, asked.lines,
          asked.stride, asked.mask, asked.pattern);
  fclose(file);
  g_launched.fetch_add(1);
  return kSuccess;
}

EXPORT int standin_main(int argc, char** argv) {
  void* injected = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (injected == nullptr) return fprintf(stderr, "%s\n", dlerror()), 2;
  reinterpret_cast<int (*)()>(dlsym(injected, "InitializeInjection"))();
  const auto set = reinterpret_cast<int (*)(uint64_t, int)>(dlsym(injected, "warpsight_race_set"));
  if (argc > 2 && set(strtoull(argv[2], nullptr, 0), 0) == 0) return 3;  // a trial without stress
  const uint64_t count = argc > 1 ? strtoull(argv[1], nullptr, 0) : 0;
  while (g_launched.load() < count) usleep(100);
  return 0;
}
