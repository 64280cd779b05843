#include "cuda/callbacks.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "cuda/addresses.h"
#include "cuda/api_rules.h"
#include "cuda/capture_range.h"
#include "cuda/derived_rows.h"
#include "cuda/detach.h"
#include "cuda/graph_level.h"
#include "cuda/graphs.h"
#include "cuda/launch_arguments.h"
#include "cuda/launch_memo.h"
#include "cuda/modules.h"
#include "cuda/node_types.h"
#include "cuda/resources.h"
#include "ring/shape_cache.h"
#include "runtime/kernel_filter.h"
#include "runtime/own_time.h"
#include "runtime/runtime.h"
#include "runtime/ticks.h"
#include "stacks/stacks.h"

namespace warpsight {
namespace {

constexpr uint8_t kLaunchFlag = 1, kCapturedFlag = 2;
constexpr uint32_t kLaunchesPerStep = 64;
constexpr uint16_t kOwnCall = 0xffff;  // no callback has this id
static_assert(offsetof(CopyCall, source) == sizeof(Api), "a CopyCall begins with an Api row");

// What a thread knows of the call it is in. CUDA calls nest one level: a runtime function calls driver
// functions, which we skip, since the program asked for the outer one.
struct ThreadCall {
  uint64_t start;       // of the open call; 0 for a launch that is timed by ticks
  uint64_t ticks;       // at its start
  const ApiRule* rule;  // of the open call
  uint32_t stack;       // taken early because the call created graph nodes; 0 not yet
  uint32_t session;     // of the open call
  uint32_t launches;    // not yet added to g_launches
  uint16_t cbid;        // of the open call
  uint8_t domain;       // of the open call; 0 none is open
  bool captured;        // the call created graph nodes
  uint8_t nodes;        // graph nodes that it made or changed, at most 2
  uint64_t node;        // the last of them
  const void* params;   // its arguments
  OwnTime::Next own;
  Addresses inner;  // of the driver's call inside a runtime call that copies
  LaunchMemo memo;
  ShapeCache shapes;
};
thread_local ThreadCall t_call;

// Its address costs a call of the loader, which the compiler, not knowing that, makes again at each use.
inline ThreadCall& this_thread() {
  ThreadCall* t = &t_call;
  asm("" : "+r"(t));
  return *t;
}

alignas(64) std::atomic<uint64_t> g_launches{0};  // in steps of kLaunchesPerStep
alignas(64)                                       // read by every call, written by none
    std::atomic<uint32_t> g_session{0};           // of the recording, by our count

void enter(ThreadCall& t, uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call) {
  const uint32_t session = g_session.load(std::memory_order_relaxed);
  if (t.session != session) {  // an open call belongs to a recording that has ended
    t.domain = 0;
    t.session = session;
    t.memo.clear();
  }
  // A driver call inside a recorded runtime call is part of it. Anything else that finds a call open replaces
  // it: that one never returned here.
  if (t.domain == CUPTI_CB_DOMAIN_RUNTIME_API && domain == CUPTI_CB_DOMAIN_DRIVER_API) return;
  t.domain = domain;
  t.cbid = static_cast<uint16_t>(cbid);
  t.stack = 0;
  t.captured = false;
  t.nodes = 0;
  t.params = call.functionParams;
  const ApiRule& rule = rule_of(domain, cbid);
  t.rule = &rule;
  if (rule.group == CallGroup::copy) t.inner = {};
  if (rule.form == LaunchForm::graph) graph_launch_starts();
  // Launches are many and short; a call that waits is timed by the clock alone.
  const bool by_ticks = rule.group == CallGroup::launch && ticks_known();
  t.start = by_ticks ? 0 : now_ns();
  if (by_ticks) t.ticks = ticks();
}

// A launch that was timed by ticks ends now by both counter and clock, read together: a thread that loses its
// processor between the two reads them again.
void take_times(const ThreadCall& t, Api* row) {
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
bool remembered(ThreadCall* t, const ApiRule& rule, const CUpti_CallbackData& call, Api* row) {
  const Dimensions* dimensions = plain_dimensions(rule.form, call.functionParams, &row->object);
  if (dimensions == nullptr || call.symbolName == nullptr) return false;
  const LaunchMemo::Entry& entry = t->memo.entry(call.symbolName, *dimensions);
  if (!LaunchMemo::holds(entry, call.symbolName, names_generation(), *dimensions)) return false;
  row->name = entry.name;
  row->shape = entry.shape;
  return true;
}

void remember(ThreadCall* t, const ApiRule& rule, const CUpti_CallbackData& call, const Api& row) {
  uint64_t stream;
  const Dimensions* dimensions = plain_dimensions(rule.form, call.functionParams, &stream);
  if (dimensions == nullptr || call.symbolName == nullptr || row.name == 0 || row.shape == 0) return;
  t->memo.entry(call.symbolName, *dimensions) = {call.symbolName, names_generation(), row.name, row.shape,
                                                 *dimensions};
}

// Adds what only launches have; false when the kernel is not wanted.
bool describe_launch(ThreadCall* t, const ApiRule& rule, const CUpti_CallbackData& call, Api* row) {
  row->flags |= kLaunchFlag;
  if (!t->captured && ++t->launches == kLaunchesPerStep) {
    t->launches = 0;
    g_launches.fetch_add(kLaunchesPerStep, std::memory_order_relaxed);
  }
  if (remembered(t, rule, call, row)) return true;
  if (call.symbolName != nullptr && rule.form != LaunchForm::graph) row->name = intern_c(call.symbolName);
  if (kernels_filtered() && rule.form != LaunchForm::graph && !kernel_wanted(row->name, call.symbolName))
    return false;
  Shape shape = {};
  if (launch_arguments(rule.form, call.functionParams, &shape, &row->object))
    row->shape = t->shapes.id(shape);
  remember(t, rule, call, *row);  // only what is wanted
  return true;
}

// The driver's copy inside of the runtime's: it knows where a symbol is.
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
  t.domain = 0;
  Api row = {};
  take_times(t, &row);
  row.correlation = call.correlationId;
  row.function = t.cbid;
  row.domain = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? kApiCudaRuntime : kApiCudaDriver;
  if (call.functionReturnValue != nullptr)
    row.result = *static_cast<const int32_t*>(call.functionReturnValue);
  if (t.captured) row.flags |= kCapturedFlag;
  const ApiRule& rule = *t.rule;
  if (rule.group == CallGroup::launch) {
    if (!describe_launch(&t, rule, call, &row)) return;
    row.stack = t.stack != 0 ? t.stack : capture_stack();
    write(row);
    return;
  }
  const CallArguments arguments = call_arguments(rule, call.functionParams, row.result == 0);
  row.object = arguments.object;
  row.bytes = arguments.bytes;
  row.stack = t.stack != 0 ? t.stack : capture_stack();
  write_call(t, domain, rule, call, row);
  if (rule.group == CallGroup::profiler) return range_call(rule, call.correlationId);
  // What is captured happens at each launch of the graph, not now.
  if (!(t.captured && rule.group == CallGroup::memory)) write_derived(rule, call, row);
}

}  // namespace

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    if (__builtin_expect(detach_wanted(), false)) return detach_at(call);
    const auto domain_id = static_cast<uint8_t>(domain);
    if (!recording()) return outside_of_range(domain_id, cbid, call);
    ThreadCall& t = this_thread();
    const OwnTime own(OwnSite::cuda, t.own);
    if (call.callbackSite == CUPTI_API_ENTER) return enter(t, domain_id, cbid, call);
    return leave(t, domain_id, cbid, call);
  }
  if (domain == CUPTI_CB_DOMAIN_RESOURCE && (recording() || awaiting_range())) on_resource(cbid, data);
}

void begin_callback_session() { g_session.fetch_add(1, std::memory_order_relaxed); }

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

OwnCall::OwnCall() {
  t_call.domain = CUPTI_CB_DOMAIN_RUNTIME_API;
  t_call.cbid = kOwnCall;
}

OwnCall::~OwnCall() { t_call.domain = 0; }

}  // namespace warpsight
