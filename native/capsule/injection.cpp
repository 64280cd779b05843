// Loads capsule recording into a process: the CUDA driver loads this library through CUDA_INJECTION64_PATH.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "capsule/calls.h"
#include "capsule/ranges.h"
#include "capsule/recorder.h"
#include "cuda/find_cupti.h"
#include "runtime/own_signals.h"

namespace warpsight {
namespace {

std::atomic<CapsuleRecorder*> g_recorder{nullptr};  // null before the start and in a forked child
sem_t g_signaled;                                   // raised once for each signal

constexpr uint32_t kResources[] = {CUPTI_CBID_RESOURCE_MODULE_LOADED,
                                   CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
                                   CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING};

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) return;
  if (domain == CUPTI_CB_DOMAIN_RESOURCE)
    recorder->on_resource(id, *static_cast<const CUpti_ResourceData*>(data));
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
    recorder->on_driver(id, *static_cast<const CUpti_CallbackData*>(data));
}

std::string refusal(CUptiResult result) {
  return result == CUPTI_SUCCESS ? ""
                                 : "CUPTI refused (" + std::to_string(result) +
                                       "); another profiler may be at work in this process";
}

// Finds CUPTI and becomes its subscriber. "" or why not.
std::string subscribe(decltype(&cuptiEnableCallback)* enable, CUpti_SubscriberHandle* subscriber) {
  void* const cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const FoundCupti cupti = find_cupti(cuda != nullptr ? driver_cuda_major(cuda) : 0);
  if (cupti.handle == nullptr) return cupti.why;
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(cupti.handle, "cuptiSubscribe"));
  *enable = reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(cupti.handle, "cuptiEnableCallback"));
  if (subscribe == nullptr || *enable == nullptr) return cupti.path + " is not CUPTI";
  return refusal(subscribe(subscriber, on_callback, nullptr));
}

// Other threads still launch: the end of a launch that is under way must be heard, or its lock is never given
// back.
void at_exit() {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) return;  // a forked child, which may have inherited locks in any state
  follow_with(nullptr, nullptr);
  recorder->at_exit();
  g_recorder.store(nullptr);
}

struct sigaction g_before = {};  // the signal's previous action; constant once the signal is caught

void on_signal(int number, siginfo_t* info, void* context) {
  if (CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire)) recorder->arm();
  sem_post(&g_signaled);
  if ((g_before.sa_flags & SA_SIGINFO) != 0)
    g_before.sa_sigaction(number, info, context);
  else if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN)
    g_before.sa_handler(number);
}

template <class Work>
void begin_thread(Work work) {
  const StartingThread starting;
  std::thread(std::move(work)).detach();
}

// Waits for the launcher without a signal, which would interrupt the program's sleeps. The launcher writes a
// byte to the pipe `trigger`, and continues once the file `armed` exists.
void await_trigger(const std::string& folder) {
  if (folder.empty()) return;
  const std::string pipe = folder + "/trigger";
  if (mkfifo(pipe.c_str(), 0600) != 0 && errno != EEXIST) return;
  const int from = open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // also for writing: it never ends
  if (from < 0) return;
  begin_thread([from, armed = folder + "/armed"] {
    char byte;
    ssize_t got;
    while ((got = read(from, &byte, 1)) == 1 || (got < 0 && errno == EINTR)) {
      if (got < 0) continue;
      CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
      if (recorder == nullptr) break;
      recorder->arm();
      const int told = open(armed.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      if (told >= 0) close(told);
      recorder->armed();
    }
    close(from);
  });
}

// CUPTI cannot be called in the handler of a signal: a thread waits for it.
void catch_signal(int number) {
  if (number == 0) return;
  sem_init(&g_signaled, 0, 0);
  begin_thread([] {
    while (sem_wait(&g_signaled) != 0) continue;
    if (CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire)) recorder->armed();
  });
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(number, &action, &g_before);
}

void in_child() { g_recorder.store(nullptr); }

void before_launch(uint32_t cbid, const void* params) {
  if (CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire))
    recorder->before_launch(cbid, params);
}

// Makes the wrappers of the launch functions report launches, if they were preloaded (native/preload).
void follow_by_wrappers(CapsuleRecorder* recorder) {
  using Follow = void (*)(void (*)(uint32_t, const void*));
  const auto follow = reinterpret_cast<Follow>(dlsym(RTLD_DEFAULT, "warpsight_follow_launches"));
  if (follow != nullptr && recorder->wants_wrappers()) follow(before_launch);
}

// Begins to follow the driver's calls as CUPTI's subscriber, or through the one that `enable` belongs to.
std::string begin(CapsuleRecorder* recorder, decltype(&cuptiEnableCallback) enable,
                  CUpti_SubscriberHandle subscriber) {
  std::string why;
  if (!load_capsule_driver(&why)) return why;
  g_recorder.store(recorder, std::memory_order_release);  // callbacks come from here on
  if (enable == nullptr) {
    follow_by_wrappers(recorder);
    why = subscribe(&enable, &subscriber);
  }
  if (!why.empty()) return why;
  follow_with(enable, subscriber);
  CUptiResult result = follow(recorder->needed());
  for (uint32_t id : kResources)
    if (result == CUPTI_SUCCESS) result = enable(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, id);
  return refusal(result);
}

// Once per process, if it was requested.
void start(decltype(&cuptiEnableCallback) enable, CUpti_SubscriberHandle subscriber) {
  static std::atomic<bool> begun{false};  // the driver may call more than once
  CapsuleRequest request;
  if (begun.exchange(true) || !read_capsule_request(&request)) return;
  request.folder += "/" + std::to_string(getpid());
  auto* const recorder = new CapsuleRecorder(std::move(request));
  if (!recorder->start()) {
    fprintf(stderr, "warpsight: the capsule's folder cannot be made: %s; nothing is cut out\n",
            strerror(errno));
    return;
  }
  const std::string why = begin(recorder, enable, subscriber);
  if (!why.empty()) {
    g_recorder.store(nullptr);
    return recorder->refuse(why);
  }
  catch_signal(recorder->signal());
  await_trigger(recorder->awaits());
  atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child);
}

}  // namespace

void named_range_begins(const char* name) {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder != nullptr && recorder->asked_for(name)) recorder->range_begins(name);
}

void named_range_ends(const char* name) {
  CapsuleRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder != nullptr && recorder->asked_for(name)) recorder->range_ends(name);
}

}  // namespace warpsight

#define WARPSIGHT_ENTRY extern "C" __attribute__((visibility("default")))

// Called by the CUDA driver inside cuInit. Anything but 1 would make the driver complain.
WARPSIGHT_ENTRY int InitializeInjection() {
  warpsight::start(nullptr, nullptr);
  return 1;
}

// Called by libwarpsight.so if it is CUPTI's subscriber, to register the function that receives its
// callbacks.
WARPSIGHT_ENTRY CUpti_CallbackFunc warpsight_capsule_join(decltype(&cuptiEnableCallback) enable,
                                                          CUpti_SubscriberHandle subscriber) {
  warpsight::start(enable, subscriber);
  return warpsight::on_callback;
}
// Whether this thread is in a call to the driver that the program did not make.
WARPSIGHT_ENTRY bool warpsight_capsule_own() { return warpsight::OwnCalls::here(); }

// Called by warpsight's Python functions in the program: `step` and `capture_frame`.
WARPSIGHT_ENTRY void warpsight_capsule_begin(const char* name) { warpsight::named_range_begins(name); }
WARPSIGHT_ENTRY void warpsight_capsule_end(const char* name) { warpsight::named_range_ends(name); }
