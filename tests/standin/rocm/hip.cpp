// libamdhip64 and libroctx64, scripted: calls go to whoever listens, kernels are names, the GPU works at once
// and is done when somebody waits for it.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "standin.h"

extern "C" void standin_runtime_starts();

namespace {

// As rocprofiler-register: only where a tool is named.
const Hooks* hooks() {
  static const Hooks* found = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    standin_runtime_starts();
    if (!getenv("ROCP_TOOL_LIBRARIES")) return;
    void* sdk = dlopen("librocprofiler-sdk.so.1", RTLD_LAZY | RTLD_GLOBAL);
    found = sdk ? static_cast<const Hooks*>(dlsym(sdk, "standin_hooks")) : nullptr;
    if (found) found->initialize();
  });
  return found;
}

std::atomic<int> g_device{0};
std::atomic<bool> g_capturing{false};

template <class Arguments, class Work>
auto call(const char* domain, const char* name, const Arguments& arguments, Work work) {
  const Hooks* listening = hooks();
  void* open = listening ? listening->enter(domain, name, &arguments, sizeof arguments) : nullptr;
  const auto result = work();
  if (open) listening->leave(open, &result, sizeof result);
  return result;
}

hipError_t launch(const void* function, dim3 grid, dim3 block, size_t shared, hipStream_t stream) {
  const char* name = static_cast<const char*>(function);
  if (strcmp(name, "fails") == 0) return 98;
  if (hooks() && !g_capturing)
    hooks()->dispatch(name, grid, block, static_cast<uint32_t>(shared), stream, g_device);
  return 0;
}

}  // namespace

STANDIN_EXPORT hipError_t hipInit(unsigned flags) {
  return call("hip", "hipInit", flags, [] { return 0; });
}

STANDIN_EXPORT hipError_t hipSetDevice(int device) {
  g_device = device;
  return 0;
}

STANDIN_EXPORT hipError_t hipGetDevice(int* device) {
  return call("hip", "hipGetDevice", device, [&] { return *device = g_device, 0; });
}

struct LaunchArguments {
  const void* function;
  dim3 grid, block;
  void** arguments;
  size_t shared;
  hipStream_t stream;
};

STANDIN_EXPORT hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                          size_t shared, hipStream_t stream) {
  return call("hip", "hipLaunchKernel", LaunchArguments{function, grid, block, arguments, shared, stream},
              [&] { return launch(function, grid, block, shared, stream); });
}

STANDIN_EXPORT hipError_t hipLaunchKernel_spt(const void* function, dim3 grid, dim3 block, void** arguments,
                                              size_t shared, hipStream_t stream) {
  return call("hip", "hipLaunchKernel_spt", LaunchArguments{function, grid, block, arguments, shared, stream},
              [&] { return launch(function, grid, block, shared, stream); });
}

STANDIN_EXPORT hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                             size_t shared, hipStream_t stream, hipEvent_t before,
                                             hipEvent_t after, int flags) {
  const struct {
    LaunchArguments launch;
    hipEvent_t before, after;
    int flags;
  } all = {{function, grid, block, arguments, shared, stream}, before, after, flags};
  return call("hip", "hipExtLaunchKernel", all,
              [&] { return launch(function, grid, block, shared, stream); });
}

struct ModuleArguments {
  void* function;
  uint32_t x, y, z, block_x, block_y, block_z;
};

STANDIN_EXPORT hipError_t hipModuleLaunchKernel(void* function, uint32_t x, uint32_t y, uint32_t z,
                                                uint32_t block_x, uint32_t block_y, uint32_t block_z,
                                                uint32_t shared, hipStream_t stream, void** arguments,
                                                void** extra) {
  const struct {
    ModuleArguments launch;
    uint32_t shared;
    hipStream_t stream;
    void **arguments, **extra;
  } all = {{function, x, y, z, block_x, block_y, block_z}, shared, stream, arguments, extra};
  return call("hip", "hipModuleLaunchKernel", all,
              [&] { return launch(function, {x, y, z}, {block_x, block_y, block_z}, shared, stream); });
}

STANDIN_EXPORT hipError_t hipExtModuleLaunchKernel(void* function, uint32_t x, uint32_t y, uint32_t z,
                                                   uint32_t block_x, uint32_t block_y, uint32_t block_z,
                                                   size_t shared, hipStream_t stream, void** arguments,
                                                   void** extra) {
  const struct {
    ModuleArguments launch;
    size_t shared;
    hipStream_t stream;
    void **arguments, **extra;
    hipEvent_t before, after;
    uint32_t flags;
  } all = {
      {function, x, y, z, block_x, block_y, block_z}, shared, stream, arguments, extra, nullptr, nullptr, 0};
  return call("hip", "hipExtModuleLaunchKernel", all, [&] {
    return launch(function, {x / block_x, y / block_y, z / block_z}, {block_x, block_y, block_z}, shared,
                  stream);
  });
}

struct hipLaunchConfig_t {
  dim3 grid, block;
  size_t shared;
  hipStream_t stream;
  void* attributes;
  unsigned count;
};

STANDIN_EXPORT hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* config, const void* function,
                                             void** arguments) {
  const struct {
    const hipLaunchConfig_t* config;
    const void* function;
    void** arguments;
  } all = {config, function, arguments};
  return call("hip", "hipLaunchKernelExC", all,
              [&] { return launch(function, config->grid, config->block, config->shared, config->stream); });
}

STANDIN_EXPORT hipError_t hipGraphLaunch(void* graph, hipStream_t stream) {
  const struct {
    void* graph;
    hipStream_t stream;
  } all = {graph, stream};
  return call("hip", "hipGraphLaunch", all, [&] {
    for (const char* node : {"first_node", "second_node"}) launch(node, {}, {64, 1, 1}, 0, stream);
    return 0;
  });
}

// Launches between these are kept for a graph and do not run.
STANDIN_EXPORT hipError_t hipStreamBeginCapture(hipStream_t, int) {
  g_capturing = true;
  return 0;
}
STANDIN_EXPORT hipError_t hipStreamEndCapture(hipStream_t, void**) {
  g_capturing = false;
  return 0;
}

struct CopyArguments {
  void* destination;
  const void* source;
  size_t bytes;
  int kind;
};

STANDIN_EXPORT hipError_t hipMemcpy(void* destination, const void* source, size_t bytes, int kind) {
  return call("hip", "hipMemcpy", CopyArguments{destination, source, bytes, kind}, [&] {
    if (hooks())
      hooks()->copy(kind + 1, bytes, nullptr, kind == 2 || kind == 3 ? 1 : 0, kind == 1 || kind == 3 ? 1 : 0);
    return 0;
  });
}

STANDIN_EXPORT hipError_t hipMemcpyAsync(void* destination, const void* source, size_t bytes, int kind,
                                         hipStream_t stream) {
  const struct {
    CopyArguments copy;
    hipStream_t stream;
  } all = {{destination, source, bytes, kind}, stream};
  return call("hip", "hipMemcpyAsync", all, [&] {
    if (hooks())
      hooks()->copy(kind + 1, bytes, stream, kind == 2 || kind == 3 ? 1 : 0, kind == 1 || kind == 3 ? 1 : 0);
    return 0;
  });
}

STANDIN_EXPORT hipError_t hipMemset(void* destination, int value, size_t bytes) {
  const struct {
    void* destination;
    int value;
    size_t bytes;
  } all = {destination, value, bytes};
  return call("hip", "hipMemset", all, [] { return 0; });
}

STANDIN_EXPORT hipError_t hipMalloc(void** place, size_t bytes) {
  const struct {
    void** place;
    size_t bytes;
  } all = {place, bytes};
  return call("hip", "hipMalloc", all, [&] { return *place = reinterpret_cast<void*>(0xabc000), 0; });
}

STANDIN_EXPORT hipError_t hipFree(void* place) {
  return call("hip", "hipFree", place, [] { return 0; });
}

STANDIN_EXPORT hipError_t hipDeviceSynchronize() {
  return call("hip", "hipDeviceSynchronize", '\0', [] {
    if (hooks()) hooks()->complete();
    return 0;
  });
}

STANDIN_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) {
  return call("hip", "hipStreamSynchronize", stream, [] {
    if (hooks()) hooks()->complete();
    return 0;
  });
}

STANDIN_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) {
  return call("hip", "hipStreamCreate", stream, [&] { return *stream = malloc(16), 0; });
}

STANDIN_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
  return call("hip", "hipStreamDestroy", stream, [&] { return free(stream), 0; });
}

STANDIN_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  const struct {
    hipEvent_t event;
    hipStream_t stream;
  } all = {event, stream};
  return call("hip", "hipEventRecord", all, [] { return 0; });
}

STANDIN_EXPORT hipError_t hipEventSynchronize(hipEvent_t event) {
  return call("hip", "hipEventSynchronize", event, [] { return 0; });
}

STANDIN_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  const struct {
    hipStream_t stream;
    hipEvent_t event;
    unsigned flags;
  } all = {stream, event, flags};
  return call("hip", "hipStreamWaitEvent", all, [] { return 0; });
}

STANDIN_EXPORT hipError_t hipNotInAnyList(int number) {
  return call("hip", "hipNotInAnyList", number, [] { return 0; });
}

STANDIN_EXPORT void roctxMarkA(const char* message) {
  call("roctx", "roctxMarkA", message, [] { return 0; });
}

STANDIN_EXPORT int roctxRangePushA(const char* message) {
  return call("roctx", "roctxRangePushA", message, [] { return 0; });
}

STANDIN_EXPORT int roctxRangePop() {
  return call("roctx", "roctxRangePop", '\0', [] { return 0; });
}

STANDIN_EXPORT uint64_t roctxRangeStartA(const char* message) {
  static std::atomic<uint64_t> last{40};
  return call("roctx", "roctxRangeStartA", message, [] { return ++last; });
}

STANDIN_EXPORT void roctxRangeStop(uint64_t id) {
  call("roctx", "roctxRangeStop", id, [] { return 0; });
}

// For the program's script: what the recorder has come to.
STANDIN_EXPORT int standin_listening() { return hooks() && hooks()->listening(); }
STANDIN_EXPORT int standin_delivered() { return !hooks() || hooks()->delivered(); }
