// cuptiSubscribe and the calls it hears of; the versions and ids CUPTI gives.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include <unistd.h>

#include "standin.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace standin {

std::mutex g_lock;  // protects the subscriber and the enabled callbacks
CUpti_CallbackFunc g_callback = nullptr;
void* g_userdata = nullptr;
std::set<std::pair<int, uint32_t>> g_enabled;
std::atomic<uint32_t> g_correlation{0};
std::atomic<int> g_attempts{0};
thread_local int t_exit_depth = 0;
thread_local uint32_t t_outer_correlation = 0;

void reset_activity();

long option(const char* name, long otherwise) {
  const char* text = getenv("STANDIN");
  const size_t length = strlen(name);
  while (text != nullptr && *text != 0) {
    if (strncmp(text, name, length) == 0 && text[length] == '=') return atol(text + length + 1);
    text = strchr(text, ',');
    if (text != nullptr) ++text;
  }
  return otherwise;
}

void violation(const char* rule) {
  fprintf(stderr, "standin: CUPTI rule broken: %s\n", rule);
  _Exit(70);
}

namespace {

std::atomic<bool> g_exits{false};

// CUPTI keeps something for every thread that calls it and takes that down when the thread ends: beside the
// process's exit, which takes down the rest, that is a crash.
struct Caller {
  bool called = false;
  ~Caller() {
    if (called && gettid() == getpid()) g_exits = true;  // first thing in exit()
    if (called && gettid() != getpid() && g_exits)
      violation("a thread that called CUPTI ends while the process exits");
  }
};
thread_local Caller t_caller;

// Time for such a thread to be seen.
__attribute__((destructor)) void linger() { usleep(10000); }

std::atomic<bool> g_torn_down{false};

// CUPTI's own part of exit(): contexts are gone afterwards, and only flushing bears that.
void tear_down() {
  g_torn_down = true;
  usleep(static_cast<useconds_t>(option("slow_exit_ms", 0)) * 1000);
}

}  // namespace

void note_use_of_contexts(const char* function) {
  if (g_torn_down) violation((std::string(function) + " after the process began to exit").c_str());
}

// What CUPTI 13.0 does where another process samples the GPU: it ends itself, and bears no second beginning.
void break_down() {
  std::lock_guard<std::mutex> guard(g_lock);
  g_torn_down = true;
  g_callback = nullptr;
  g_enabled.clear();
}

void note_caller() { t_caller.called = true; }

static void call_back(CUpti_CallbackDomain domain, uint32_t cbid, const void* data) {
  CUpti_CallbackFunc callback = nullptr;
  void* userdata = nullptr;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    if (g_enabled.count({domain, cbid}) == 0) return;
    callback = g_callback;
    userdata = g_userdata;
  }
  if (callback != nullptr) callback(userdata, domain, cbid, data);
}

Call::Call(CUpti_CallbackDomain domain, uint32_t cbid, const char* function, const void* params,
           const char* symbol)
    : domain_(domain), cbid_(cbid) {
  note_caller();
  data_.context = reinterpret_cast<CUcontext>(0x1000);
  data_.contextUid = 1;
  data_.functionName = function;
  data_.functionParams = params;
  data_.symbolName = symbol;
  data_.functionReturnValue = &result_;
  data_.correlationData = &shared_;
  // A driver call inside a runtime call has the outer one's correlation id.
  const bool nested = t_outer_correlation != 0;
  data_.correlationId = nested ? t_outer_correlation : ++g_correlation;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) t_outer_correlation = data_.correlationId;
  data_.callbackSite = CUPTI_API_ENTER;
  call_back(domain_, cbid_, &data_);
}

Call::~Call() {
  data_.callbackSite = CUPTI_API_EXIT;
  ++t_exit_depth;
  call_back(domain_, cbid_, &data_);
  --t_exit_depth;
  if (domain_ == CUPTI_CB_DOMAIN_RUNTIME_API) t_outer_correlation = 0;
}

void resource(CUpti_CallbackIdResource id, void* descriptor, CUstream stream) {
  CUpti_ResourceData data = {};
  data.context = reinterpret_cast<CUcontext>(0x1000);
  data.resourceHandle.stream = stream;
  data.resourceDescriptor = descriptor;
  call_back(CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

}  // namespace standin

using namespace standin;  // NOLINT

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                  void* userdata) {
  note_caller();
  note_use_of_contexts("cuptiSubscribe");
  if (g_attempts++ < option("refuse_subscribe", 0)) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  std::lock_guard<std::mutex> guard(g_lock);
  if (g_callback != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  static const int registered = atexit(tear_down);
  (void)registered;
  g_callback = callback;
  g_userdata = userdata;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(0x51);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  note_use_of_contexts("cuptiUnsubscribe");
  std::lock_guard<std::mutex> guard(g_lock);
  g_callback = nullptr;
  g_enabled.clear();
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId cbid) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API, driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  if ((runtime && cbid >= CUPTI_RUNTIME_TRACE_CBID_SIZE) ||
      (driver && cbid >= CUPTI_DRIVER_TRACE_CBID_SIZE)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  std::lock_guard<std::mutex> guard(g_lock);
  if (g_callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  enable != 0 ? (void)g_enabled.insert({domain, cbid}) : (void)g_enabled.erase({domain, cbid});
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  std::lock_guard<std::mutex> guard(g_lock);
  if (g_callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *enable = static_cast<uint32_t>(g_enabled.count({domain, cbid}));
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (runtime && cbid == CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020)
    *name = "cudaFree_v3020";
  else if (runtime && cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020)
    *name = "cudaMemcpy_v3020";
  else
    return CUPTI_ERROR_INVALID_PARAMETER;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiFinalize() {
  if (option("no_detach", 0) != 0) return CUPTI_ERROR_UNKNOWN;
  if (t_exit_depth == 0 && getenv("STANDIN_FOREIGN_FINALIZE") == nullptr) {
    violation("cuptiFinalize outside the exit of a call");
  }
  note_use_of_contexts("cuptiFinalize");
  reset_activity();
  std::lock_guard<std::mutex> guard(g_lock);
  g_callback = nullptr;
  g_enabled.clear();
  g_correlation = 0;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = static_cast<uint32_t>(option("version", 130001));
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
              : "CUPTI_ERROR_OTHER";
  return CUPTI_SUCCESS;
}

// Ids follow from addresses, which the program makes small.
EXPORT CUptiResult cuptiGetContextId(CUcontext, uint32_t* id) { return *id = 1, CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiGetDeviceId(CUcontext, uint32_t* id) { return *id = 0, CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiGetStreamId(CUcontext, CUstream stream, uint32_t* id) {
  *id = stream == nullptr ? 7 : static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream));
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  return *id = reinterpret_cast<uint64_t>(node), CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t* id) {
  return *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(graph)), CUPTI_SUCCESS;
}
