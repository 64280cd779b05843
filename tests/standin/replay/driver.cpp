// A libcuda.so.1 for replays without a GPU: device memory is this process's own, and kernels are the C++
// functions below, found by name in modules that list theirs as "kernels: NAME NAME…". Clocks count work, not
// time.
#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Bytes = unsigned char*;
Bytes at(CUdeviceptr address) { return reinterpret_cast<Bytes>(address); }

// What an address may point to, in pieces: mapped, registered, allocated, and variables of modules.
std::map<CUdeviceptr, size_t> g_memory;

bool holds(CUdeviceptr address, size_t size) {
  while (size != 0) {
    const auto after = g_memory.upper_bound(address);
    if (after == g_memory.begin()) return false;
    const auto [start, length] = *std::prev(after);
    if (address - start >= length) return false;
    const size_t here = std::min<size_t>(size, length - (address - start));
    address += here, size -= here;
  }
  return true;
}

bool holds_rows(CUdeviceptr address, size_t width, size_t pitch, size_t height) {
  for (size_t row = 0; row < height; ++row)
    if (!holds(address + row * pitch, width)) return false;
  return true;
}

struct Launch {
  unsigned threads;
  const std::vector<unsigned char>& parameters;
  template <class T>
  T parameter(size_t offset) const {
    T value = {};
    if (offset + sizeof value <= parameters.size()) memcpy(&value, parameters.data() + offset, sizeof value);
    return value;
  }
  // Whether the arrays of floats that the first two parameters point to are memory.
  bool good(size_t elements, size_t inputs) const {
    return holds(parameter<CUdeviceptr>(0), 4 * elements) && holds(parameter<CUdeviceptr>(8), inputs);
  }
  size_t count() const { return static_cast<size_t>(std::max(0, parameter<int>(20))); }
};

using Kernel = CUresult (*)(const Launch&);
std::atomic<uint64_t> g_clock{0};  // µs

// What a launch outside of a graph takes beside its kernel, µs: STANDIN_LAUNCH_GAP.
uint64_t launch_gap() {
  const char* const text = getenv("STANDIN_LAUNCH_GAP");
  return text != nullptr ? strtoull(text, nullptr, 10) : 0;
}

// void scale(float* y, const float* x, float a, int n)
CUresult scale(const Launch& launch) {
  if (!launch.good(launch.count(), 4 * launch.count())) return CUDA_ERROR_ILLEGAL_ADDRESS;
  auto* y = launch.parameter<float*>(0);
  const auto* x = launch.parameter<const float*>(8);
  for (int i = 0; i < launch.parameter<int>(20); ++i) y[i] = x[i] * launch.parameter<float>(16);
  return CUDA_SUCCESS;
}

// The same, one ulp off in one element.
CUresult scale_off(const Launch& launch) {
  if (scale(launch) != CUDA_SUCCESS || !launch.good(8, 0)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  auto* y = launch.parameter<unsigned*>(0);
  y[7] += 1;
  return CUDA_SUCCESS;
}

// As atomics in another order: something else in each run.
CUresult noisy(const Launch& launch) {
  static unsigned runs = 0;
  if (scale(launch) != CUDA_SUCCESS || !launch.good(4, 0)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  auto* y = launch.parameter<unsigned*>(0);
  y[3] += runs++ % 2;
  return CUDA_SUCCESS;
}

// One element behind what it should write.
CUresult beyond(const Launch& launch) {
  if (scale(launch) != CUDA_SUCCESS || !launch.good(launch.count() + 1, 0)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  launch.parameter<float*>(0)[launch.parameter<int>(20)] = 1;
  return CUDA_SUCCESS;
}

// Reads one element behind its input.
CUresult reads_beyond(const Launch& launch) {
  if (scale(launch) != CUDA_SUCCESS || !launch.good(1, 4 * launch.count() + 4))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  launch.parameter<unsigned*>(0)[0] = launch.parameter<const unsigned*>(8)[launch.parameter<int>(20)];
  return CUDA_SUCCESS;
}

CUresult faulty(const Launch&) { return CUDA_ERROR_ILLEGAL_ADDRESS; }

// void through(float* y, const float* const* pointers, float unused, int n): follows a pointer stored in
// memory
CUresult through(const Launch& launch) {
  if (!launch.good(launch.count(), sizeof(float*))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  auto* y = launch.parameter<float*>(0);
  const float* x = launch.parameter<const float* const*>(8)[0];
  if (!holds(reinterpret_cast<CUdeviceptr>(x), 4 * launch.count())) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int i = 0; i < launch.parameter<int>(20); ++i) y[i] = x[i];
  return CUDA_SUCCESS;
}

// A kernel of a trace (PTX, kernel_N): waits for so many ns.
CUresult wait(const Launch& launch) {
  g_clock += launch.parameter<uint64_t>(0) / 1000;
  return CUDA_SUCCESS;
}
std::pair<Kernel, int> g_wait = {wait, 1};

const std::map<std::string, std::pair<Kernel, int>> kKernels = {
    // and its cost
    {"_Z5scalePfPKffi", {scale, 10}}, {"scale_fast", {scale, 5}}, {"scale_off", {scale_off, 10}},
    {"noisy", {noisy, 10}},           {"beyond", {beyond, 10}},   {"reads_beyond", {reads_beyond, 10}},
    {"faulty", {faulty, 1}},          {"through", {through, 10}},
};

struct Module {
  std::string text;
  std::map<std::string, std::vector<unsigned char>> globals;  // "globals: NAME=BYTES"
};

struct Node {
  std::function<CUresult()> work;
};
struct Graph {
  std::vector<Node*> nodes;
};

Graph* g_capturing = nullptr;
std::vector<CUgraphNode> g_dependencies;
bool g_context = false;
CUresult g_fault = CUDA_SUCCESS;  // sticky, as the driver's
std::map<CUdeviceptr, size_t> g_reserved;

CUresult issue(std::function<CUresult()> work) {
  if (g_fault != CUDA_SUCCESS) return g_fault;
  if (g_capturing == nullptr) return g_fault = work(), CUDA_SUCCESS;
  auto* node = new Node{std::move(work)};
  g_capturing->nodes.push_back(node);
  g_dependencies = {reinterpret_cast<CUgraphNode>(node)};
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuInit(unsigned) {
  return getenv("STANDIN_NO_DEVICE") != nullptr ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      break;
    case CUDA_ERROR_NOT_FOUND:
      *name = "CUDA_ERROR_NOT_FOUND";
      break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      *name = "CUDA_ERROR_NO_BINARY_FOR_GPU";
      break;
    case CUDA_ERROR_NO_DEVICE:
      *name = "CUDA_ERROR_NO_DEVICE";
      break;
    default:
      *name = "CUDA_ERROR_INVALID_VALUE";
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGet(CUdevice* device, int number) {
  return *device = number, number == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  return snprintf(name, static_cast<size_t>(size), "Stand-in GPU"), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  return *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  g_context = true;
  return *context = reinterpret_cast<CUcontext>(0x10), CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSynchronize() { return g_fault; }
EXPORT CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return *free = *total = 80ull << 30, CUDA_SUCCESS;
}

// As driver 580: in multiples of 32 MiB, elsewhere when that is not free or there is a context already.
EXPORT CUresult cuMemAddressReserve(CUdeviceptr* found, size_t size, size_t, CUdeviceptr wanted,
                                    unsigned long long) {
  constexpr size_t kUnit = 32 << 20;
  if (size % kUnit != 0) return CUDA_ERROR_INVALID_VALUE;
  *found = (wanted + kUnit) / kUnit * kUnit;
  if (wanted % kUnit != 0 || g_context) return CUDA_SUCCESS;
  void* memory =
      mmap(at(wanted), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | 0x100000, -1, 0);
  if (memory == MAP_FAILED) return CUDA_SUCCESS;
  g_reserved[wanted] = size;
  return *found = wanted, CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp*,
                            unsigned long long) {
  return *handle = size, CUDA_SUCCESS;
}
EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle handle,
                         unsigned long long) {
  const auto after = g_reserved.upper_bound(address);
  if (after == g_reserved.begin() || handle < size) return CUDA_ERROR_INVALID_VALUE;
  const auto [start, reserved] = *std::prev(after);
  return address + size <= start + reserved ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc*, size_t) {
  g_memory[address] = size;
  return mprotect(at(address), size, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemGetAllocationGranularity(size_t* size, const CUmemAllocationProp*,
                                              CUmemAllocationGranularity_flags) {
  return *size = 2 << 20, CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister_v2(void* memory, size_t size, unsigned) {
  return g_memory[reinterpret_cast<CUdeviceptr>(memory)] = size, CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned) {
  return *device = reinterpret_cast<CUdeviceptr>(host), CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  return *address = reinterpret_cast<CUdeviceptr>(malloc(size)), g_memory[*address] = size, CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** memory, size_t size, unsigned) {
  *memory = calloc(1, size);
  if (*memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  return g_memory[reinterpret_cast<CUdeviceptr>(*memory)] = size, CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size) {
  if (!holds(to, size)) return CUDA_ERROR_INVALID_VALUE;
  return memcpy(at(to), from, size), CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size) {
  if (!holds(from, size)) return CUDA_ERROR_INVALID_VALUE;
  return memcpy(to, at(from), size), g_fault;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream) {
  if (!holds(to, size)) return CUDA_ERROR_INVALID_VALUE;
  return issue([=] { return memcpy(at(to), from, size), CUDA_SUCCESS; });
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream) {
  if (!holds(from, size)) return CUDA_ERROR_INVALID_VALUE;
  return issue([=] { return memcpy(to, at(from), size), CUDA_SUCCESS; });
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream) {
  if (!holds(to, size) || !holds(from, size)) return CUDA_ERROR_INVALID_VALUE;
  return issue([=] { return memmove(at(to), at(from), size), CUDA_SUCCESS; });
}
EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* plan, CUstream) {
  const CUDA_MEMCPY2D copy = *plan;
  const bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST,
             to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  if ((!from_host && !holds_rows(copy.srcDevice, copy.WidthInBytes, copy.srcPitch, copy.Height)) ||
      (!to_host && !holds_rows(copy.dstDevice, copy.WidthInBytes, copy.dstPitch, copy.Height)))
    return CUDA_ERROR_INVALID_VALUE;
  return issue([=] {
    const auto* from = copy.srcMemoryType == CU_MEMORYTYPE_HOST
                           ? static_cast<const unsigned char*>(copy.srcHost)
                           : at(copy.srcDevice);
    auto* to =
        copy.dstMemoryType == CU_MEMORYTYPE_HOST ? static_cast<Bytes>(copy.dstHost) : at(copy.dstDevice);
    for (size_t row = 0; row < copy.Height; ++row)
      memcpy(to + row * copy.dstPitch, from + row * copy.srcPitch, copy.WidthInBytes);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  if (!holds(to, count)) return CUDA_ERROR_INVALID_VALUE;
  return memset(at(to), value, count), CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  if (!holds(to, size) || !holds(from, size)) return CUDA_ERROR_INVALID_VALUE;
  return memmove(at(to), at(from), size), CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  for (size_t i = 0; i < count; ++i) memcpy(at(to) + 2 * i, &value, 2);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  for (size_t i = 0; i < count; ++i) memcpy(at(to) + 4 * i, &value, 4);
  return CUDA_SUCCESS;
}
template <class T>
CUresult fill(CUdeviceptr to, size_t pitch, T value, size_t width, size_t height) {
  if (width > 1ull << 60 || !holds_rows(to, width * sizeof value, pitch, height))
    return CUDA_ERROR_INVALID_VALUE;
  return issue([=] {
    for (size_t row = 0; row < height; ++row)
      for (size_t i = 0; i < width; ++i)
        memcpy(at(to) + row * pitch + i * sizeof value, &value, sizeof value);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                  size_t height, CUstream) {
  return fill(to, pitch, value, width, height);
}
EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                   size_t height, CUstream) {
  return fill(to, pitch, value, width, height);
}
EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                                   CUstream) {
  return fill(to, pitch, value, width, height);
}

EXPORT CUresult cuModuleLoadData(CUmodule* loaded, const void* image) {
  const std::string text = static_cast<const char*>(image);
  if (text.find("kernels:") == std::string::npos && text.find(".entry kernel_") == std::string::npos)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto* module = new Module{text, {}};
  return *loaded = reinterpret_cast<CUmodule>(module), CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const auto found = kKernels.find(name);
  const std::string& text = reinterpret_cast<Module*>(module)->text;
  if (text.find(".entry " + std::string(name) + "(.param .u64") != std::string::npos)
    return *function = reinterpret_cast<CUfunction>(&g_wait), CUDA_SUCCESS;
  if (found == kKernels.end() || text.find(" " + found->first + " ") == std::string::npos)
    return CUDA_ERROR_NOT_FOUND;
  return *function = reinterpret_cast<CUfunction>(const_cast<std::pair<Kernel, int>*>(&found->second)),
         CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* size, CUmodule module, const char* name) {
  auto& globals = reinterpret_cast<Module*>(module)->globals;
  auto& bytes = globals[name];
  bytes.resize(64);
  g_memory[reinterpret_cast<CUdeviceptr>(bytes.data())] = bytes.size();
  *address = reinterpret_cast<CUdeviceptr>(bytes.data());
  return *size = bytes.size(), CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                                 void** extra) {
  if (parameters != nullptr || extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto* buffer = static_cast<const unsigned char*>(extra[1]);
  const std::vector<unsigned char> kept(buffer, buffer + *static_cast<size_t*>(extra[3]));
  const auto [kernel, cost] = *reinterpret_cast<std::pair<Kernel, int>*>(function);
  const unsigned threads = config->gridDimX * config->blockDimX;
  if (g_capturing == nullptr) g_clock += launch_gap();
  return issue([=, kernel = kernel, cost = cost] {
    g_clock += static_cast<uint64_t>(cost);
    return kernel({threads, kept});
  });
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  static uintptr_t next = 0x100;
  return *stream = reinterpret_cast<CUstream>(next++), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, cuuint32_t, unsigned) { return CUDA_SUCCESS; }
EXPORT CUresult cuEventCreate(CUevent* event, unsigned) {
  return *event = reinterpret_cast<CUevent>(new uint64_t(0)), CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream) {
  return *reinterpret_cast<uint64_t*>(event) = g_clock, CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  const uint64_t units = *reinterpret_cast<uint64_t*>(to) - *reinterpret_cast<uint64_t*>(from);
  return *milliseconds = static_cast<float>(units) / 1000, CUDA_SUCCESS;  // a unit is a microsecond
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
  g_capturing = new Graph;
  return g_dependencies.clear(), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                          const CUgraphNode** nodes, size_t* count) {
  *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return *nodes = g_dependencies.data(), *count = g_dependencies.size(), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode* nodes, size_t count,
                                                  unsigned flags) {
  if (flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  return g_dependencies.assign(nodes, nodes + count), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(g_capturing);
  return g_capturing = nullptr, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* ready, CUgraph graph, unsigned long long) {
  return *ready = reinterpret_cast<CUgraphExec>(graph), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream) {
  for (Node* node : reinterpret_cast<Graph*>(graph)->nodes) {
    const CUresult result = issue(node->work);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
