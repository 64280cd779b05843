#include "sanitizer/memory_stress.h"

#include <dlfcn.h>

#include <chrono>

#include "runtime/own_signals.h"
#include "sanitizer/stress_kernel.h"
#include "stress_ptx.h"

namespace warpsight {
namespace {

constexpr size_t kWords = 16u << 20;  // as much as the L2 of large GPUs; halved where memory is short
constexpr size_t kFewestWords = 1u << 18;
constexpr uint32_t kLineWords = 32, kStressCounter = 2;  // the latter: of all uses of Philox

#define WARPSIGHT_STRESS_FUNCTIONS(X) \
  X(cuCtxGetStreamPriorityRange)      \
  X(cuCtxSetCurrent)                  \
  X(cuDeviceGetAttribute)             \
  X(cuDeviceGetCount)                 \
  X(cuDevicePrimaryCtxGetState)       \
  X(cuDevicePrimaryCtxRetain)         \
  X(cuFuncSetAttribute)               \
  X(cuLaunchKernel)                   \
  X(cuModuleGetFunction)              \
  X(cuModuleLoadData)                 \
  X(cuStreamCreateWithPriority)       \
  X(cuStreamQuery)                    \
  X(cuThreadExchangeStreamCaptureMode)

struct Driver {
#define WARPSIGHT_MEMBER(name) decltype(&::name) name;
  WARPSIGHT_STRESS_FUNCTIONS(WARPSIGHT_MEMBER)
#undef WARPSIGHT_MEMBER
  CUresult (*allocate)(CUdeviceptr*, size_t);
};
Driver g_cu;

bool load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  bool all = true;
  const auto find = [library, &all](const char* name) {
    void* found = dlsym(library, name);
    all &= found != nullptr;
    return found;
  };
#define WARPSIGHT_LOOK_UP(name) g_cu.name = reinterpret_cast<decltype(g_cu.name)>(find(#name));
  WARPSIGHT_STRESS_FUNCTIONS(WARPSIGHT_LOOK_UP)
#undef WARPSIGHT_LOOK_UP
  g_cu.allocate = reinterpret_cast<decltype(g_cu.allocate)>(find("cuMemAlloc_v2"));
  return all;
}

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

MemoryStress::MemoryStress(const WsRule& rule)
    : rule_(rule), wanted_(rule.threshold != 0), threshold_(rule.threshold) {}

void MemoryStress::start() {
  if (!load_driver()) return;
  const StartingThread starting;
  thread_ = std::thread([this] { run(); });
}

void MemoryStress::begin_trial(uint64_t seed, bool on) {
  std::lock_guard<std::mutex> lock(mutex_);
  rule_.seed = seed;
  rule_.threshold = on ? threshold_ : 0;
  next_ = 0;
  wanted_ = on || (trials_ && wanted_);
  trials_ = true;
}

bool MemoryStress::stop() {
  stopping_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
  std::lock_guard<std::mutex> lock(mutex_);
  return !wanted_ || launched_.load() > 0;
}

void MemoryStress::run() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // the program may capture a graph meanwhile
  int count = 0;
  while (!stopping_.load(std::memory_order_acquire) && (g_cu.cuDeviceGetCount(&count) != CUDA_SUCCESS))
    pause();
  g_cu.cuThreadExchangeStreamCaptureMode(&mode);
  devices_.resize(static_cast<size_t>(count));
  while (!stopping_.load(std::memory_order_acquire)) {
    bool any = false;
    for (int number = 0; number < count; ++number) {
      Device* device = &devices_[static_cast<size_t>(number)];
      if (device->failed || !prepare(number, device)) continue;
      for (uint32_t i = 0; i < 2; ++i) {
        const CUresult state = g_cu.cuStreamQuery(device->streams[i]);
        if (state == CUDA_ERROR_NOT_READY) continue;
        device->failed |= state != CUDA_SUCCESS;
        if (device->failed) break;
        any |= launch_next(number, device, i);
      }
    }
    if (!any) pause();
  }
}

// Whether the device's primary context exists and what we need is in it.
bool MemoryStress::prepare(CUdevice number, Device* device) {
  unsigned int flags = 0;
  int active = 0;
  if (g_cu.cuDevicePrimaryCtxGetState(number, &flags, &active) != CUDA_SUCCESS || active == 0) {
    *device = Device();  // the program has reset it
    return false;
  }
  if (device->context == nullptr && !load(number, device)) device->failed = true;
  return !device->failed && g_cu.cuCtxSetCurrent(device->context) == CUDA_SUCCESS;
}

bool MemoryStress::load(CUdevice number, Device* device) {
  CUmodule module = nullptr;
  int multiprocessors = 0, shared = 0, lowest = 0, highest = 0;
  CUresult result = g_cu.cuDevicePrimaryCtxRetain(&device->context, number);
  if (result == CUDA_SUCCESS) result = g_cu.cuCtxSetCurrent(device->context);
  if (result == CUDA_SUCCESS) result = g_cu.cuModuleLoadData(&module, kStressPtx);
  if (result == CUDA_SUCCESS) result = g_cu.cuModuleGetFunction(&device->kernel, module, "ws_stress");
  size_t words = kWords;
  if (result == CUDA_SUCCESS) {
    while ((result = g_cu.allocate(&device->words, words * sizeof(uint32_t))) == CUDA_ERROR_OUT_OF_MEMORY &&
           words > kFewestWords)
      words /= 2;
  }
  g_cu.cuCtxGetStreamPriorityRange(&lowest, &highest);
  for (CUstream& stream : device->streams) {
    if (result == CUDA_SUCCESS)
      result = g_cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, lowest);
  }
  g_cu.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, number);
  g_cu.cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, number);
  if (result == CUDA_SUCCESS &&
      g_cu.cuFuncSetAttribute(device->kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared) ==
          CUDA_SUCCESS)
    device->most_shared = static_cast<uint32_t>(shared);
  device->multiprocessors = static_cast<uint32_t>(multiprocessors);
  device->mask = static_cast<uint32_t>(words - 1) & ~(kLineWords - 1);
  return result == CUDA_SUCCESS && multiprocessors > 0;
}

// Launches the next kernel on one of the two streams; false when it is left out, or was refused.
bool MemoryStress::launch_next(CUdevice number, Device* device, uint64_t stream) {
  uint64_t kernel = 0;
  WsRule rule;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    rule = rule_;
    if (rule.threshold != 0) kernel = next_++;
  }
  unsigned int x[4] = {static_cast<unsigned int>(kernel), static_cast<unsigned int>(number), 0,
                       kStressCounter};
  ws_philox(x, static_cast<unsigned int>(rule.seed), static_cast<unsigned int>(rule.seed >> 32));
  if ((x[3] & ~3u) >= rule.threshold) return false;
  // The pattern that had most effect on GPUs: many threads reading a few lines, for as long as the program's
  // kernels run.
  WsStress stress = {};
  stress.ns = rule.floor_ns + (x[0] * (static_cast<uint64_t>(rule.ceiling_ns) - rule.floor_ns + 1) >> 32);
  stress.seed = x[0] ^ x[1];
  stress.lines = 1u << (x[2] & 7);
  stress.stride = kLineWords << (x[2] >> 3 & 7);
  stress.mask = device->mask;
  stress.pattern = (x[2] >> 16 & 1) != 0 ? 0 : x[2] >> 6 & 255;  // half of them load only
  const bool alone = (x[3] & 7) == 0;                            // on their multiprocessors
  const uint32_t threads = 128u << (x[2] >> 14 & 3);
  const uint32_t blocks = device->multiprocessors / 4 + 1 + x[1] % device->multiprocessors;
  const uint32_t shared = alone ? device->most_shared : 0;
  void* arguments[] = {&device->words, &stress};
  const CUresult result = g_cu.cuLaunchKernel(device->kernel, blocks, 1, 1, threads, 1, 1, shared,
                                              device->streams[stream], arguments, nullptr);
  device->failed |= result != CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) launched_.fetch_add(1);
  return result == CUDA_SUCCESS;
}

}  // namespace warpsight
