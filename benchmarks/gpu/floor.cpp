// The floor of what recording kernels costs: CUPTI's records of kernels, copies and sets, thrown away. No
// recorder built on them can cost less. The second floor adds what stacks of launches need at least: a
// callback at each launch that does nothing but walk the thread's Python frames.
//
// Two uses: floor_on and floor_off through ctypes, or CUDA_INJECTION64_PATH (and FLOOR_WALK, the second
// floor) for a program from its start. overhead.py builds it: c++ -O2 -std=c++17 -shared -fPIC -I native -I
// CUPTI -I CUDA floor.cpp libcupti.so.13
#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "stacks/frames.h"

namespace {

using warpsight::Chain;
using warpsight::OwnMemory;
using warpsight::PythonLayout;

constexpr size_t kBufferBytes = 1 << 20;
constexpr uint32_t kDepth = 128;
constexpr PythonLayout kLayouts[] = {warpsight::compiled_layout(11), warpsight::compiled_layout(12),
                                     warpsight::compiled_layout(13)};
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};
constexpr CUpti_CallbackId kLaunches[] = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                          CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                          CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch};

std::atomic<long> g_kernels{0};  // seen since floor_off was last called
std::atomic<uint64_t> g_walked{0};
CUpti_SubscriberHandle g_subscriber = nullptr;
const PythonLayout* g_layout = nullptr;  // of this interpreter
void* (*g_thread_state)() = nullptr;     // PyGILState_GetThisThreadState

void CUPTIAPI requested(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most = 0;
}

void CUPTIAPI completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  long kernels = 0;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    kernels += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  }
  g_kernels.fetch_add(kernels, std::memory_order_relaxed);
  free(buffer);
}

void CUPTIAPI at_launch(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite != CUPTI_API_EXIT || g_layout == nullptr)
    return;
  const auto state = reinterpret_cast<uint64_t>(g_thread_state());
  OwnMemory memory;
  uint64_t frame = 0;
  if (state == 0 || !innermost_frame(*g_layout, memory, state, &frame)) return;
  Chain chain = {};
  walk_frames(*g_layout, memory, frame, kDepth, false, &chain);
  if (chain.hash == 1) g_walked.fetch_add(1);  // the walk must not be optimised away
}

bool find_python() {
  const auto* version = static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  g_thread_state = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  if (version == nullptr || g_thread_state == nullptr) return false;
  for (const PythonLayout& layout : kLayouts) {
    if (layout.minor == (*version >> 16 & 255)) g_layout = &layout;
  }
  return g_layout != nullptr;
}

int subscribe() {
  if (!find_python() || cuptiSubscribe(&g_subscriber, at_launch, nullptr) != CUPTI_SUCCESS) return 1;
  int failed = 0;
  for (const auto id : kLaunches)
    failed |= cuptiEnableCallback(1, g_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
  return failed;
}

}  // namespace

// 0 when CUPTI records. `walk`: the second floor. Callbacks are registered every time: another recorder of
// this process may have registered its own meanwhile.
extern "C" int floor_on(int walk) {
  int failed = cuptiActivityRegisterCallbacks(requested, completed);
  for (const auto kind : kKinds) failed |= cuptiActivityEnable(kind);
  return failed | (walk != 0 ? subscribe() : 0);
}

// Ends it; the kernels that were recorded.
extern "C" long floor_off() {
  if (g_subscriber != nullptr) cuptiUnsubscribe(g_subscriber);
  g_subscriber = nullptr;
  for (const auto kind : kKinds) cuptiActivityDisable(kind);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  return g_kernels.exchange(0);
}

extern "C" int InitializeInjection() { return floor_on(getenv("FLOOR_WALK") != nullptr) == 0; }
