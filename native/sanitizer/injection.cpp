// Loads event tracing into a process: the CUDA driver loads this library through CUDA_INJECTION64_PATH.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "sanitizer/memory_stress.h"
#include "sanitizer/tracer.h"

namespace warpsight {
namespace {

std::atomic<uint64_t> g_graphs{0};       // launches of graphs so far
thread_local uint64_t t_graph = 1;       // number of the call that this thread is making
std::atomic<Tracer*> g_tracer{nullptr};  // null before the start and in a forked child
std::atomic<MemoryStress*> g_stress{nullptr};
constexpr int kNotStressed = 125;  // exit code of a run that cannot be judged

void on_event(void*, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void* data) {
  Tracer* const tracer = g_tracer.load(std::memory_order_acquire);
  if (tracer == nullptr) return;
  if (domain == SANITIZER_CB_DOMAIN_DRIVER_API) {
    if (tracer->compiled() != nullptr)
      tracer->compiled()->replace(id, *static_cast<const Sanitizer_CallbackData*>(data));
  } else if (domain == SANITIZER_CB_DOMAIN_RESOURCE) {
    const auto* module = static_cast<const Sanitizer_ResourceModuleData*>(data);
    if (id == SANITIZER_CBID_RESOURCE_MODULE_LOADED) tracer->module_loaded(*module);
    if (id == SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING) tracer->module_unloads(*module);
    if (id == SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
      tracer->collect(static_cast<const Sanitizer_ResourceContextData*>(data)->context, nullptr, true);
    if (id == SANITIZER_CBID_RESOURCE_STREAM_DESTROY_STARTING) {
      const auto* ends = static_cast<const Sanitizer_ResourceStreamData*>(data);
      tracer->collect(ends->context, ends->stream, false);
    }
  } else if (domain == SANITIZER_CB_DOMAIN_LAUNCH && id == SANITIZER_CBID_LAUNCH_BEGIN) {
    tracer->launch_begins(*static_cast<const Sanitizer_LaunchData*>(data), 0);
  } else if (domain == SANITIZER_CB_DOMAIN_GRAPHS && id == SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN) {
    t_graph = g_graphs.fetch_add(1) + 1;
  } else if (domain == SANITIZER_CB_DOMAIN_GRAPHS && id == SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN) {
    const auto* node = static_cast<const Sanitizer_GraphNodeLaunchData*>(data);
    if (node->nodeType == CU_GRAPH_NODE_TYPE_KERNEL && node->isGraphUpload == 0)
      tracer->launch_begins(node->launchData, t_graph);
  } else if (domain == SANITIZER_CB_DOMAIN_EVENTS) {
    const auto* event = static_cast<const Sanitizer_EventData*>(data);
    if (id == SANITIZER_CBID_EVENTS_RECORD) tracer->ordered("record", event->event, event->stream);
    if (id == SANITIZER_CBID_EVENTS_STREAM_WAIT) tracer->ordered("wait", event->event, event->stream);
    if (id == SANITIZER_CBID_EVENTS_SYNCHRONIZE) tracer->ordered("event", event->event, nullptr);
  } else if (domain == SANITIZER_CB_DOMAIN_SYNCHRONIZE) {
    const auto* done = static_cast<const Sanitizer_SynchronizeData*>(data);
    const bool all = id == SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
    if (id == SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED)
      tracer->ordered("stream", nullptr, done->stream);
    if (all) tracer->ordered("context", nullptr, nullptr);
    tracer->collect(done->context, done->stream, all);
  }
}

void at_exit() {
  if (Tracer* const tracer = g_tracer.exchange(nullptr)) tracer->stop();
  MemoryStress* const stress = g_stress.exchange(nullptr);
  if (stress == nullptr || stress->stop()) return;
  fprintf(stderr,
          "warpsight: memory was not stressed: the program used no primary context, or only briefly\n");
  fflush(nullptr);
  _exit(kNotStressed);
}

void in_child() {
  g_tracer.store(nullptr);
  g_stress.store(nullptr);
}

void start_stress(const EventRequest& request) {
  DelayPlan plan;
  if (!plan.read(request.plan)) return;
  auto* const stress = new MemoryStress(plan.rule);
  stress->start();
  g_stress.store(stress);
  atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child);
}

// The program goes on without a trace; the launcher finds the file with the reason.
void refuse(Tracer* tracer, const std::string& why) {
  tracer->file().lose(why, 0);
  tracer->stop();
}

bool subscribe(const SanitizerFunctions& functions, Tracer* tracer) {
  Sanitizer_SubscriberHandle subscriber = nullptr;
  SanitizerResult result = functions.subscribe(&subscriber, on_event, nullptr);
  for (const auto domain :
       {SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CB_DOMAIN_GRAPHS,
        SANITIZER_CB_DOMAIN_EVENTS, SANITIZER_CB_DOMAIN_SYNCHRONIZE}) {
    if (result == SANITIZER_SUCCESS) result = functions.enable_domain(1, subscriber, domain);
  }
  if (tracer->compiled() != nullptr) {
    for (const auto id : CompiledModules::loads())
      if (result == SANITIZER_SUCCESS)
        result = functions.enable_callback(1, subscriber, SANITIZER_CB_DOMAIN_DRIVER_API, id);
  }
  if (result == SANITIZER_SUCCESS) return true;
  const char* text = nullptr;
  functions.result_string(result, &text);
  refuse(tracer, std::string("the Sanitizer refused: ") + (text != nullptr ? text : "error") +
                     "; another tool may be at work in this process");
  return false;
}

}  // namespace
}  // namespace warpsight

// Called by the CUDA driver inside cuInit. Anything but 1 would make the driver complain.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace warpsight;
  static std::atomic<bool> begun{false};  // the driver may call more than once
  EventRequest request;
  if (begun.exchange(true) || !read_request(&request)) return 1;
  if (request.mode == WS_STRESS) {
    start_stress(request);
    return 1;
  }
  SanitizerFunctions functions = {};
  std::string why;
  const bool loaded = load_sanitizer(request.library, &functions, &why);
  auto* const tracer = new Tracer(std::move(request), functions);
  if (!tracer->start()) {
    fprintf(stderr, "warpsight: the event file cannot be made: %s; no events are traced\n", strerror(errno));
    return 1;
  }
  if (!loaded) {
    refuse(tracer, why);
    return 1;
  }
  g_tracer.store(tracer, std::memory_order_release);  // callbacks come from here on
  if (!subscribe(functions, tracer)) {
    g_tracer.store(nullptr);
    return 1;
  }
  atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child);
  return 1;
}

// Begins a trial in a process that runs several: launches count from 0 again, and delays are drawn from this
// seed; with `on` 0, patched code runs without waiting. False if this process has no plan. Kernels launched
// earlier are unaffected.
extern "C" __attribute__((visibility("default"))) int warpsight_race_set(uint64_t seed, int on) {
  if (warpsight::MemoryStress* const stress = warpsight::g_stress.load()) {
    stress->begin_trial(seed, on != 0);
    return 1;
  }
  warpsight::Tracer* const tracer = warpsight::g_tracer.load(std::memory_order_acquire);
  return tracer != nullptr && tracer->begin_trial(seed, on != 0) ? 1 : 0;
}

// Sets another plan for later launches, limited to the code of the first one. False if this process has none,
// or the file is missing.
extern "C" __attribute__((visibility("default"))) int warpsight_race_plan(const char* path) {
  warpsight::Tracer* const tracer = warpsight::g_tracer.load(std::memory_order_acquire);
  return tracer != nullptr && tracer->change_plan(path) ? 1 : 0;
}
