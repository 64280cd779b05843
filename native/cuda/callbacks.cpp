#include "cuda/callbacks.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "cuda/addresses.h"
#include "cuda/api_rules.h"
#include "cuda/capture_range.h"
#include "cuda/counters.h"
#include "cuda/cuda.h"
#include "cuda/derived_rows.h"
#include "cuda/detach.h"
#include "cuda/graph_level.h"
#include "cuda/graphs.h"
#include "cuda/launch_arguments.h"
#include "cuda/launch_memo.h"
#include "cuda/modules.h"
#include "cuda/node_types.h"
#include "cuda/resources.h"
#include "ring/hot.h"
#include "ring/shape_cache.h"
#include "runtime/kernel_filter.h"
#include "runtime/own_time.h"
#include "runtime/runtime.h"
#include "runtime/ticks.h"
#include "stacks/stacks.h"
#include "stacks/thread_cache.h"

namespace warpsight {
namespace {

constexpr uint8_t kLaunchFlag = 1, kCapturedFlag = 2;
constexpr uint32_t kLaunchesPerStep = 64;
constexpr uint16_t kOwnCall = 0xffff;  // no callback has this id
static_assert(offsetof(CopyCall, source) == sizeof(Api), "a CopyCall begins with an Api row");

// What a thread knows about its current call. CUDA calls nest one level: a runtime function calls driver
// functions, which we skip, because the program called the outer one. Everything that a launch needs is in
// the first 64 bytes.
struct alignas(64) ThreadCall {
  uint64_t start;        // of the open call; 0 for a launch that is timed by ticks
  uint64_t ticks;        // at its start
  const void* params;    // its arguments
  Cursor** cursors;      // if this thread has its own; the address is valid for the thread's lifetime
  ThreadCache** stacks;  // likewise
  uint32_t session;      // of the open call
  uint32_t launches;     // not yet added to g_launches
  uint32_t stack;        // taken early because the call created graph nodes; 0 not yet
  uint16_t cbid;         // of the open call
  uint8_t domain;        // of the open call; 0: none is open
  uint8_t nodes : 2;     // graph nodes that it made or changed, at most 2
  bool captured : 1;     // the call created graph nodes
  OwnTime::Next own;
  uint32_t launched;  // correlation id of the last launch, 0: none
  uint64_t node;      // the last of them
  Addresses inner;    // of the driver's call inside a runtime call that copies
  LaunchMemo memo;
  ShapeCache shapes;
};
thread_local ThreadCall t_call;  // zeros: anything else is looked for, and made, at each use

// Its address costs a call of the loader, which the compiler, not knowing that, makes again at each use.
WARPSIGHT_INLINE ThreadCall& this_thread() {
  ThreadCall* t = &t_call;
  asm("" : "+r"(t));
  return *t;
}

alignas(64) std::atomic<uint64_t> g_launches{0};  // in steps of kLaunchesPerStep
// Of the recording, by our count; read by every call.
WARPSIGHT_HOT_DATA std::atomic<uint32_t> g_session{0};
// Whether something is done before and after each launch; set while nothing is recorded, read by every
// launch.
WARPSIGHT_HOT_DATA bool g_launches_watched = false;

// How the common launch functions pass their arguments; none for any other call.
WARPSIGHT_INLINE LaunchForm usual_launch(CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return LaunchForm::none;
  if (cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel || cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz)
    return LaunchForm::driver_arguments;
  if (cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ||
      cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz)
    return LaunchForm::driver_config;
  return LaunchForm::none;
}

// A thread's first call of a recording.
WARPSIGHT_COLD void begin_session(ThreadCall& t, uint32_t session) {
  t.domain = 0;  // an open call belongs to a recording that has ended
  t.session = session;
  t.own = OwnTime::kFirst;
  t.launched = 0;
  t.memo.clear();
  t.cursors = &t_cursors;
  t.stacks = &t_stack_cache;
}

// Opens a call. False for a driver call inside a recorded runtime call, which is part of it. Anything else
// that finds a call open replaces it: that one never returned here.
WARPSIGHT_INLINE bool open_call(ThreadCall& t, uint8_t domain, uint32_t cbid,
                                const CUpti_CallbackData& call) {
  const uint32_t session = g_session.load(std::memory_order_relaxed);
  if (__builtin_expect(t.session != session, 0)) begin_session(t, session);
  if (t.domain == CUPTI_CB_DOMAIN_RUNTIME_API && domain == CUPTI_CB_DOMAIN_DRIVER_API) return false;
  t.domain = domain;
  t.cbid = static_cast<uint16_t>(cbid);
  t.stack = 0;
  t.captured = false;
  t.nodes = 0;
  t.params = call.functionParams;
  return true;
}

// Launches are many and short; a call that waits is timed by the clock alone.
WARPSIGHT_INLINE void start_launch(ThreadCall& t) {
  const bool by_ticks = ticks_known();
  t.start = by_ticks ? 0 : now_ns();
  if (by_ticks) t.ticks = ticks();
}

// The stream of a launch; the one that 0 means for calls of programs with a default stream per thread.
CUstream launch_stream(LaunchForm form, const CUpti_CallbackData& call) {
  Shape shape = {};
  uint64_t stream = 0;
  launch_arguments(form, call.functionParams, &shape, &stream);
  if (stream == 0 && call.functionName != nullptr && strstr(call.functionName, "_ptsz") != nullptr)
    return CU_STREAM_PER_THREAD;
  return reinterpret_cast<CUstream>(stream);
}

void enter(ThreadCall& t, uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  if (!open_call(t, domain, cbid, call)) return;
  const ApiRule& rule = rule_of(domain, cbid);
  if (rule.group == CallGroup::copy) t.inner = {};
  if (rule.form == LaunchForm::graph) graph_launch_starts();
  if (rule.group == CallGroup::launch) {
    if (g_launches_watched)
      launch_begins(call.context, rule.form == LaunchForm::graph ? nullptr : call.symbolName,
                    launch_stream(rule.form, call));
    return start_launch(t);
  }
  t.start = now_ns();
}

// A launch that was timed by ticks ends now by both counter and clock, read together: a thread that loses its
// processor between the two reads them again.
WARPSIGHT_INLINE void take_times(const ThreadCall& t, Api* row) {
  constexpr uint64_t kTogetherNs = 5000;
  uint64_t end = 0;
  if (t.start != 0) {
    end = now_ns();
    row->start = t.start;
  } else {
    uint64_t at = ticks();
    for (int tries = 0; tries < 3; ++tries) {
      end = now_ns();
      const uint64_t after = ticks();
      if (ticks_ns(after - at) < kTogetherNs) break;
      at = after;
    }
    row->start = end - ticks_ns(at - t.ticks);
  }
  row->duration = end - row->start;
}

// Name, shape and stream of a launch that this thread made before.
WARPSIGHT_INLINE bool remembered(ThreadCall* t, LaunchForm form, const CUpti_CallbackData& call, Api* row) {
  const Dimensions* dimensions = plain_dimensions(form, call.functionParams, &row->object);
  if (dimensions == nullptr || call.symbolName == nullptr) return false;
  const LaunchMemo::Entry& entry = t->memo.entry(call.symbolName, *dimensions);
  if (!LaunchMemo::holds(entry, call.symbolName, names_generation(), *dimensions)) return false;
  row->name = entry.name;
  row->shape = entry.shape;
  return true;
}

void remember(ThreadCall* t, LaunchForm form, const CUpti_CallbackData& call, const Api& row) {
  uint64_t stream;
  const Dimensions* dimensions = plain_dimensions(form, call.functionParams, &stream);
  if (dimensions == nullptr || call.symbolName == nullptr || row.name == 0 || row.shape == 0) return;
  t->memo.entry(call.symbolName, *dimensions) = {call.symbolName, names_generation(), row.name, row.shape,
                                                 *dimensions};
}

// Name, shape and stream of a launch; false when the kernel is not wanted.
WARPSIGHT_COLD bool describe_launch(ThreadCall* t, LaunchForm form, const CUpti_CallbackData& call,
                                    Api* row) {
  if (call.symbolName != nullptr && form != LaunchForm::graph) row->name = intern_c(call.symbolName);
  if (kernels_filtered() && form != LaunchForm::graph && !kernel_wanted(row->name, call.symbolName))
    return false;
  Shape shape = {};
  if (launch_arguments(form, call.functionParams, &shape, &row->object)) row->shape = t->shapes.id(shape);
  remember(t, form, call, *row);  // only requested ones
  return true;
}

WARPSIGHT_INLINE void count_launch(ThreadCall& t) {
  if (t.captured || ++t.launches != kLaunchesPerStep) return;
  t.launches = 0;
  g_launches.fetch_add(kLaunchesPerStep, std::memory_order_relaxed);
}

// Ends the open call: the part of a row common to all calls.
WARPSIGHT_INLINE Api close_call(ThreadCall& t, const CUpti_CallbackData& call) {
  Api row = {};
  take_times(t, &row);
  row.correlation = call.correlationId;
  row.function = t.cbid;
  row.domain = t.domain == CUPTI_CB_DOMAIN_RUNTIME_API ? kApiCudaRuntime : kApiCudaDriver;
  t.domain = 0;
  if (call.functionReturnValue != nullptr)
    row.result = *static_cast<const int32_t*>(call.functionReturnValue);
  if (t.captured) row.flags |= kCapturedFlag;
  return row;
}

WARPSIGHT_INLINE uint32_t stack_of(const ThreadCall& t) {
  return t.stack != 0 ? t.stack : capture_stack_with(*t.stacks, 1);
}

WARPSIGHT_INLINE void leave_launch(ThreadCall& t, LaunchForm form, const CUpti_CallbackData& call) {
  Api row = close_call(t, call);
  row.flags |= kLaunchFlag;
  t.launched = t.captured ? 0 : row.correlation;
  count_launch(t);
  if (!remembered(&t, form, call, &row) && !describe_launch(&t, form, call, &row)) return;
  row.stack = stack_of(t);
  write(row, OnFull::drop, *t.cursors);
}

// The driver's copy inside the runtime's, which knows the address of a symbol.
void leave_inner(ThreadCall& t, uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  if (t.domain != CUPTI_CB_DOMAIN_RUNTIME_API || domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  if (rule_of(t.domain, t.cbid).group != CallGroup::copy || rule_of(domain, cbid).group != CallGroup::copy)
    return;
  t.inner = addresses_of(domain, cbid, call.functionParams);
}

// Writes the row of a call that is not a launch, with the addresses of one that copies or fills.
void write_call(const ThreadCall& t, uint8_t domain, const ApiRule& rule, const CUpti_CallbackData& call,
                const Api& row) {
  const bool copies = rule.group == CallGroup::copy || rule.group == CallGroup::set;
  if (!copies) write(row);
  if (!copies && rule.group != CallGroup::graph) return;
  Addresses addresses = addresses_of(domain, t.cbid, call.functionParams);
  if (rule.group == CallGroup::copy) {
    if (addresses.source == 0) addresses.source = t.inner.source;
    if (addresses.destination == 0) addresses.destination = t.inner.destination;
  }
  if (copies) {
    CopyCall copy = {};
    memcpy(&copy, &row, sizeof row);
    copy.source = addresses.source;
    copy.destination = addresses.destination;
    write(copy);
    if (t.captured && row.result == 0 && t.nodes == 1) set_node_addresses(t.node, addresses);
  } else if (row.result == 0) {
    on_graph_call(rule, row.object, addresses, t.nodes, t.node);
  }
}

void leave(ThreadCall& t, uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  // Nested, or entered before the recording.
  if (t.domain != domain || t.cbid != cbid) return leave_inner(t, domain, cbid, call);
  const ApiRule& rule = rule_of(domain, cbid);
  if (rule.group == CallGroup::launch) {
    leave_launch(t, rule.form, call);
    if (g_launches_watched)
      launch_ended(rule.form == LaunchForm::graph ? "CUDA graph" : call.symbolName, call.correlationId);
    return;
  }
  Api row = close_call(t, call);
  const CallArguments arguments = call_arguments(rule, call.functionParams, row.result == 0);
  row.object = arguments.object;
  row.bytes = arguments.bytes;
  row.stack = stack_of(t);
  write_call(t, domain, rule, call, row);
  if (rule.group == CallGroup::profiler) return range_call(rule, call.correlationId);
  // Captured work runs at each launch of the graph, not now.
  if (!(t.captured && rule.group == CallGroup::memory)) write_derived(rule, call, row);
}

// Any call but a usual launch.
WARPSIGHT_COLD void on_call(ThreadCall& t, uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  if (call.callbackSite == CUPTI_API_ENTER) return enter(t, domain, cbid, call);
  return leave(t, domain, cbid, call);
}

WARPSIGHT_COLD void on_call_while_idle(uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  if (detach_wanted()) return detach_at(call);
  return outside_of_range(domain, cbid, call);
}

}  // namespace

WARPSIGHT_HOT void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                        const void* data) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    const auto domain_id = static_cast<uint8_t>(domain);
    if (__builtin_expect(detach_wanted() || !recording(), 0))
      return on_call_while_idle(domain_id, cbid, call);
    ThreadCall& t = this_thread();
    const OwnTime own(OwnSite::cuda, t.own);
    const LaunchForm form = usual_launch(domain, cbid);
    if (__builtin_expect(form == LaunchForm::none || g_launches_watched, 0))
      return on_call(t, domain_id, cbid, call);
    if (call.callbackSite == CUPTI_API_ENTER) {
      if (open_call(t, domain_id, cbid, call)) start_launch(t);
    } else if (t.domain == domain_id && t.cbid == cbid) {  // else nested, or entered before the recording
      leave_launch(t, form, call);
    }
    return;
  }
  if (domain == CUPTI_CB_DOMAIN_RESOURCE && (recording() || awaiting_range())) on_resource(cbid, data);
}

void begin_callback_session() {
  g_launches_watched = launches_watched();
  g_session.fetch_add(1, std::memory_order_relaxed);
}

uint64_t launches_seen() { return g_launches.load(std::memory_order_relaxed); }

uint32_t stack_of_current_call(bool captured) {
  ThreadCall& t = t_call;
  if (t.domain == 0) return capture_stack();
  t.captured |= captured;
  if (t.stack == 0) t.stack = capture_stack();
  return t.stack;
}

void note_node(uint64_t node) {
  ThreadCall& t = t_call;
  if (t.domain == 0) return;
  t.node = node;
  if (t.nodes < 2) ++t.nodes;
}

uint32_t node_type_of_current_call() {
  const ThreadCall& t = t_call;
  return t.domain == 0 ? kUnknownNode : type_made_by(t.domain, t.cbid, t.params);
}

uint32_t last_launch_of_thread() {
  const ThreadCall& t = t_call;
  return t.session == g_session.load(std::memory_order_relaxed) ? t.launched : 0;
}

OwnCall::OwnCall() {
  t_call.domain = CUPTI_CB_DOMAIN_RUNTIME_API;
  t_call.cbid = kOwnCall;
}

OwnCall::~OwnCall() { t_call.domain = 0; }

}  // namespace warpsight
