#include "maca/callbacks.h"

#include <atomic>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "maca/api_names.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"
#include "stacks/stacks.h"

namespace warpsight {
namespace {

constexpr uint8_t kLaunchFlag = 1, kCapturedFlag = 2, kNoKernelFlag = 8;
constexpr uint32_t kNoStream = ~0u;
constexpr uint32_t kMostOpen = 8;

struct OpenCall {
  uint64_t start;
  uint32_t cbid, correlation;
  uint8_t domain;
  bool launch;
  bool launched_inside;  // a launch with its own id was made within it
};

// The calls a thread is in. MACA functions may be built on others: the outermost is the one the program
// called.
struct ThreadCalls {
  OpenCall open[kMostOpen];
  uint32_t depth, session;
};
thread_local ThreadCalls t_calls;

// Of the recording, by our count. Relaxed: a thread that reads the number before does as in the recording
// before.
std::atomic<uint32_t> g_session{0};
std::atomic<int32_t> g_captures{0};  // stream captures that have begun but not ended; relaxed: a count
// Relaxed: set while kinds are enabled, and enabling callbacks afterwards orders it before them.
std::atomic<bool> g_waits_recorded{false};

void enter(uint32_t domain, uint32_t cbid, const MacaFunction& function, const CUpti_CallbackData& call) {
  ThreadCalls& t = t_calls;
  const uint32_t session = g_session.load(std::memory_order_relaxed);
  if (t.session != session || t.depth == kMostOpen) {  // of an ended recording, or calls that never returned
    t.session = session;
    t.depth = 0;
  }
  OpenCall& open = t.open[t.depth++];
  open = {};
  open.cbid = cbid;
  open.domain = static_cast<uint8_t>(domain);
  open.correlation = call.correlationId;
  open.launch = function.group == MacaGroup::launch;
  open.start = now_ns();
}

// Whether a call around this one has already recorded the launch; one with another id marks those as not the
// launch.
bool told_by_outer(ThreadCalls* t, const OpenCall& call) {
  for (uint32_t i = 0; i < t->depth; ++i) {
    if (!t->open[i].launch) continue;
    if (t->open[i].correlation == call.correlation) return true;
    t->open[i].launched_inside = true;
  }
  return false;
}

void write_wait(const MacaFunction& function, const CUpti_CallbackData& call, const Api& api) {
  if (function.wait == 0 || g_waits_recorded.load(std::memory_order_relaxed)) return;
  Sync row = {};
  row.start = api.start;
  row.end = api.start + api.duration;
  row.correlation = api.correlation;
  row.context = call.contextUid;
  row.stream = kNoStream;
  row.type = function.wait;
  row.result = api.result;
  write(row);
}

void leave(uint32_t domain, uint32_t cbid, const MacaFunction& function, const CUpti_CallbackData& call) {
  ThreadCalls& t = t_calls;
  uint32_t at = t.depth;
  while (at > 0 && (t.open[at - 1].cbid != cbid || t.open[at - 1].domain != domain)) --at;
  if (at == 0) return;  // entered before the recording
  const OpenCall open = t.open[at - 1];
  t.depth = at - 1;
  if (open.launch ? told_by_outer(&t, open) : t.depth != 0) return;
  Api row = {};
  row.start = open.start;
  row.duration = now_ns() - open.start;
  row.correlation = call.correlationId;
  row.function = function.number;
  row.domain = kApiMaca;
  if (call.functionReturnValue != nullptr)
    row.result = *static_cast<const int32_t*>(call.functionReturnValue);
  if (open.launch) {
    row.flags = kLaunchFlag;
    if (open.launched_inside) row.flags |= kNoKernelFlag;
    if (g_captures.load(std::memory_order_relaxed) > 0) row.flags |= kCapturedFlag;
    if (call.symbolName != nullptr) {
      row.name = intern_c(call.symbolName);
      if (kernels_filtered() && !kernel_wanted(row.name, call.symbolName)) return;
    }
  }
  row.stack = capture_stack();
  write(row);
  write_wait(function, call, row);
}

// A launch during a capture becomes part of a graph. Which stream is captured is in the arguments; a program
// that captures one stream while it launches into others is rare, and its kernels keep their stacks all the
// same.
void count_capture(int8_t capture, const CUpti_CallbackData& call) {
  const bool failed =
      call.functionReturnValue != nullptr && *static_cast<const int32_t*>(call.functionReturnValue) != 0;
  if (capture > 0 && !failed) g_captures.fetch_add(1, std::memory_order_relaxed);
  // At 0 it had begun before the recording. Never below: a capture that begins meanwhile would not count.
  int32_t open = g_captures.load(std::memory_order_relaxed);
  while (capture < 0 && open > 0 &&
         !g_captures.compare_exchange_weak(open, open - 1, std::memory_order_relaxed)) {
  }
}

}  // namespace

void CUPTIAPI on_maca_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  if (!recording() || data == nullptr) return;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const MacaFunction function = maca_function(domain, cbid, call.functionName);
  const bool entered = call.callbackSite == CUPTI_API_ENTER;
  if (function.capture != 0 && !entered) count_capture(function.capture, call);
  if (!function.wanted) return;
  entered ? enter(domain, cbid, function, call) : leave(domain, cbid, function, call);
}

void begin_maca_callback_session() {
  g_session.fetch_add(1, std::memory_order_relaxed);
  g_captures.store(0, std::memory_order_relaxed);
}

void set_waits_recorded(bool recorded) { g_waits_recorded.store(recorded, std::memory_order_relaxed); }

}  // namespace warpsight
