// How cutting out gets into a process: the CUDA driver loads this library as CUDA_INJECTION64_PATH says.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "capsule/ranges.h"
#include "capsule/recorder.h"
#include "cuda/find_cupti.h"

namespace warpsight {
namespace {

std::atomic<CapsuleRecorder*> g_recorder{nullptr};  // null before the start and in a forked child
std::atomic<bool> g_quiet{false};                   // callbacks were turned off
CUpti_SubscriberHandle g_subscriber = nullptr;      // constant once callbacks come
decltype(&cuptiEnableCallback) g_enable = nullptr;  // likewise

// The calls beside work and graphs that are followed.
constexpr uint32_t kFollowed[] = {
#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name
    CBID(cuMemAlloc_v2),
    CBID(cuMemAllocPitch_v2),
    CBID(cuMemAllocAsync),
    CBID(cuMemAllocAsync_ptsz),
    CBID(cuMemAllocFromPoolAsync),
    CBID(cuMemAllocFromPoolAsync_ptsz),
    CBID(cuMemAllocManaged),
    CBID(cuMemHostAlloc),
    CBID(cuMemHostAlloc_v2),
    CBID(cuMemAllocHost_v2),
    CBID(cuMemHostRegister_v2),
    CBID(cuIpcOpenMemHandle_v2),
    CBID(cuMemMap),
    CBID(cuMemFree_v2),
    CBID(cuMemFreeAsync),
    CBID(cuMemFreeAsync_ptsz),
    CBID(cuMemFreeHost),
    CBID(cuMemHostUnregister),
    CBID(cuMemUnmap),
    CBID(cuIpcCloseMemHandle),
    CBID(cuModuleLoad),
    CBID(cuModuleLoadData),
    CBID(cuModuleLoadDataEx),
    CBID(cuModuleLoadFatBinary),
    CBID(cuTexObjectCreate),
    CBID(cuSurfObjectCreate),
    CBID(cuTexRefSetAddress_v2),
    CBID(cuTexRefSetArray)
#undef CBID
};
constexpr uint32_t kResources[] = {CUPTI_CBID_RESOURCE_MODULE_LOADED,
                                   CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
                                   CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING};

CUptiResult switch_calls(uint32_t on) {
  CUptiResult result = CUPTI_SUCCESS;
  const auto one = [&](uint32_t cbid) {
    if (result != CUPTI_SUCCESS) return;
    result = g_enable(on, g_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbid);
    if (result == CUPTI_ERROR_INVALID_PARAMETER) result = CUPTI_SUCCESS;  // newer than this CUPTI
  };
  for (uint32_t cbid : work_calls()) one(cbid);
  for (uint32_t cbid : Graphs::calls()) one(cbid);
  for (uint32_t cbid : kFollowed) one(cbid);
  return result;
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) return;
  if (domain == CUPTI_CB_DOMAIN_RESOURCE)
    recorder->on_resource(id, *static_cast<const CUpti_ResourceData*>(data));
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  recorder->on_driver(id, *static_cast<const CUpti_CallbackData*>(data));
  if (recorder->done() && !g_quiet.exchange(true)) switch_calls(0);
}

std::string subscribe() {
  void* const cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const FoundCupti cupti = find_cupti(cuda != nullptr ? driver_cuda_major(cuda) : 0);
  if (cupti.handle == nullptr) return cupti.why;
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(cupti.handle, "cuptiSubscribe"));
  g_enable = reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(cupti.handle, "cuptiEnableCallback"));
  if (subscribe == nullptr || g_enable == nullptr) return cupti.path + " is not CUPTI";
  CUptiResult result = subscribe(&g_subscriber, on_callback, nullptr);
  if (result == CUPTI_SUCCESS) result = switch_calls(1);
  for (uint32_t id : kResources)
    if (result == CUPTI_SUCCESS) result = g_enable(1, g_subscriber, CUPTI_CB_DOMAIN_RESOURCE, id);
  return result == CUPTI_SUCCESS ? ""
                                 : "CUPTI refused (" + std::to_string(result) +
                                       "); another profiler may be at work in this process";
}

void at_exit() {
  if (CapsuleRecorder* const recorder = g_recorder.exchange(nullptr)) recorder->at_exit();
}

struct sigaction g_before = {};  // what the signal did; constant once it is caught

void on_signal(int number, siginfo_t* info, void* context) {
  if (CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire)) recorder->arm();
  if ((g_before.sa_flags & SA_SIGINFO) != 0)
    g_before.sa_sigaction(number, info, context);
  else if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN)
    g_before.sa_handler(number);
}

void catch_signal(int number) {
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  if (number != 0) sigaction(number, &action, &g_before);
}

void in_child() { g_recorder.store(nullptr); }

}  // namespace

void named_range_begins(const char* name) {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder != nullptr && recorder->asked_for(name)) recorder->range_begins();
}

void named_range_ends(const char* name) {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder != nullptr && recorder->asked_for(name)) recorder->range_ends();
}

}  // namespace warpsight

#define WARPSIGHT_ENTRY extern "C" __attribute__((visibility("default")))

// Called by the CUDA driver inside cuInit. Anything but 1 would make the driver complain.
WARPSIGHT_ENTRY int InitializeInjection() {
  using namespace warpsight;
  static std::atomic<bool> begun{false};  // the driver may call more than once
  CapsuleRequest request;
  if (begun.exchange(true) || !read_capsule_request(&request)) return 1;
  request.folder += "/" + std::to_string(getpid());
  auto* const recorder = new CapsuleRecorder(std::move(request));
  if (!recorder->start()) {
    fprintf(stderr, "warpsight: the capsule's folder cannot be made: %s; nothing is cut out\n",
            strerror(errno));
    return 1;
  }
  std::string why;
  if (load_capsule_driver(&why)) {
    g_recorder.store(recorder, std::memory_order_release);  // callbacks come from here on
    why = subscribe();
  }
  if (!why.empty()) {
    g_recorder.store(nullptr);
    recorder->refuse(why);
    return 1;
  }
  catch_signal(recorder->signal());
  atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child);
  return 1;
}

// Called by warpsight's Python functions in the program: `step` and `capture_frame`.
WARPSIGHT_ENTRY void warpsight_capsule_begin(const char* name) { warpsight::named_range_begins(name); }
WARPSIGHT_ENTRY void warpsight_capsule_end(const char* name) { warpsight::named_range_ends(name); }
