#include "rocm/calls.h"

#include <atomic>
#include <cstring>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "ring/shape_cache.h"
#include "rocm/agents.h"
#include "rocm/api_rules.h"
#include "rocm/derived_rows.h"
#include "rocm/kernels.h"
#include "rocm/launch_arguments.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"
#include "stacks/stacks.h"

namespace warpsight::rocm {
namespace {

constexpr uint8_t kLaunchFlag = 1, kNestedFlag = 4, kUntimedFlag = 8;
constexpr uint64_t kOurs = 0x5753ull << 48, kAsync = 1ull << 32;  // in external correlation ids that we gave
constexpr uint32_t kDeep = 8;  // HIP calls inside HIP calls that a thread keeps apart

// A call that has not returned. HIP functions may call others through the same table.
struct OpenCall {
  uint64_t correlation, start;
  const char* text;  // of the last kernel it dispatched
  uint32_t stream, name, shape, dispatches;
  bool has_stream, asynchronous;
};

struct ThreadCalls {
  OpenCall open[kDeep];
  uint32_t depth;
  ShapeCache shapes;
};
thread_local ThreadCalls t_calls;

std::atomic<uint64_t> g_dispatches{0};  // made while recording; relaxed: a count
// Of dispatches and kernel rows. Relaxed: set before the context starts, and starting it orders them before
// its callbacks.
std::atomic<bool> g_heard{false}, g_none{false};

const void* arguments_of(const Heard& heard) { return static_cast<const char*>(heard.payload) + kArguments; }

uint64_t bytes_of(const Heard& heard) {
  uint64_t size;
  memcpy(&size, heard.payload, sizeof size);
  return size;
}

int32_t result_of(const Heard& heard) {
  const uint64_t size = bytes_of(heard);
  if (size < kArguments + kHipResultBytes) return 0;
  int32_t result;
  memcpy(&result, static_cast<const char*>(heard.payload) + size - kHipResultBytes, sizeof result);
  return result;
}

void enter(const Heard& heard, const ApiRule& rule) {
  ThreadCalls& t = t_calls;
  if (t.depth == kDeep) t.depth = 0;  // calls that never returned to us
  OpenCall& call = t.open[t.depth++];
  call = {};
  call.correlation = heard.correlation;
  uint64_t handle = 0;
  call.has_stream = stream_argument(rule, arguments_of(heard), &handle);
  if (call.has_stream) call.stream = stream_id(handle);
  call.asynchronous = rule.group == CallGroup::copy && strstr(rule.name, "Async") != nullptr;
  call.start = now_ns();
}

// Takes the call off the thread's list; false when its beginning was not recorded.
bool take(const Heard& heard, OpenCall* call) {
  ThreadCalls& t = t_calls;
  for (uint32_t at = t.depth; at > 0; --at) {
    if (t.open[at - 1].correlation != heard.correlation) continue;
    *call = t.open[at - 1];
    t.depth = at - 1;
    return true;
  }
  return false;
}

// Adds what only launches have; false when the kernel is not wanted.
bool describe_launch(const OpenCall& call, const ApiRule& rule, const Heard& heard, Api* row) {
  row->flags |= kLaunchFlag;
  row->object = call.stream;
  const bool one_kernel = rule.form != LaunchForm::graph && strcmp(rule.name, "hipLaunchHostFunc") != 0;
  if (!one_kernel) return true;
  if (kernels_filtered() && !kernel_wanted(call.name, call.text)) return false;
  row->name = call.name;
  row->shape = call.shape;
  Shape shape = {};
  if (row->shape == 0 && launch_shape(rule, arguments_of(heard), &shape))
    row->shape = t_calls.shapes.id(shape);
  const bool silent = g_none.load(std::memory_order_relaxed) ||
                      (g_heard.load(std::memory_order_relaxed) && call.dispatches == 0);
  if (silent) row->flags |= kUntimedFlag;  // a launch into a graph being captured, above all
  return true;
}

// The row of a copy or fill, which has addresses too; an object of these calls is the address they write.
void write_copy(const Api& call, uint64_t source) {
  CopyCall row = {};
  row.start = call.start;
  row.duration = call.duration;
  row.correlation = call.correlation;
  row.stack = call.stack;
  row.result = call.result;
  row.function = call.function;
  row.domain = call.domain;
  row.flags = call.flags;
  row.object = call.object;
  row.bytes = call.bytes;
  row.source = source;
  row.destination = call.object;
  write(row);
}

void leave(const Heard& heard, const Operation& operation, const OpenCall& call) {
  const ApiRule& rule = *operation.rule;
  uint64_t source = 0;
  Api row = {};
  row.start = call.start;
  row.duration = now_ns() - call.start;
  row.correlation = static_cast<uint32_t>(heard.correlation);
  row.function = operation.function;
  row.domain = kApiHip;
  row.result = result_of(heard);
  if (t_calls.depth != 0) row.flags |= kNestedFlag;
  if (rule.group == CallGroup::launch) {
    if (!describe_launch(call, rule, heard, &row)) return;
  } else {
    const CallArguments arguments = call_arguments(rule, arguments_of(heard), row.result == 0);
    row.object = arguments.object;
    row.bytes = arguments.bytes;
    source = arguments.source;
  }
  row.stack = capture_stack();
  if (rule.group == CallGroup::copy || rule.group == CallGroup::set) {
    write_copy(row, source);
    return;
  }
  write(row);
  if (rule.group != CallGroup::launch)
    write_derived(rule, arguments_of(heard), call.has_stream, call.stream, row);
}

uint32_t groups(uint32_t items, uint32_t of) { return of != 0 ? (items + of - 1) / of : items; }

}  // namespace

void on_call(const Heard& heard) {
  if (heard.payload == nullptr) return;
  const Operation& operation = operation_of(heard.operation);
  if (heard.phase == kEnter) {
    if (recording()) enter(heard, *operation.rule);
    return;
  }
  OpenCall call;
  if (heard.phase == kExit && take(heard, &call) && recording()) leave(heard, operation, call);
}

Dispatched describe(const DispatchInfo& info) {
  Dispatched found = {};
  KernelSymbol symbol = {};
  if (find_kernel(info.kernel, &symbol)) {
    found.text = symbol.name;
    found.name = intern_c(symbol.name);
    found.module = symbol.module;
  }
  Shape& shape = found.shape;
  if (!WARPSIGHT_ROCM_HAS(info, DispatchInfo, grid)) return found;
  shape.grid_x = static_cast<int32_t>(groups(info.grid.x, info.workgroup.x));
  shape.grid_y = static_cast<int32_t>(groups(info.grid.y, info.workgroup.y));
  shape.grid_z = static_cast<int32_t>(groups(info.grid.z, info.workgroup.z));
  shape.block_x = static_cast<int32_t>(info.workgroup.x);
  shape.block_y = static_cast<int32_t>(info.workgroup.y);
  shape.block_z = static_cast<int32_t>(info.workgroup.z);
  shape.registers = symbol.registers;
  shape.shared_static = symbol.group_bytes < info.group_bytes ? symbol.group_bytes : info.group_bytes;
  shape.shared_dynamic = info.group_bytes - shape.shared_static;
  shape.local_per_thread = info.private_bytes;
  return found;
}

void on_dispatch(const Heard& heard) {
  if (heard.phase != kEnter || heard.operation != kEnqueue || heard.payload == nullptr || !recording())
    return;
  const auto& data = *static_cast<const DispatchData*>(heard.payload);
  if (!WARPSIGHT_ROCM_HAS(data, DispatchData, info.grid)) return;
  g_dispatches.fetch_add(1, std::memory_order_relaxed);
  ThreadCalls& t = t_calls;
  if (t.depth == 0) return;
  OpenCall& call = t.open[t.depth - 1];
  const Dispatched kernel = describe(data.info);
  ++call.dispatches;
  call.text = kernel.text;
  call.name = kernel.name;
  call.shape = t.shapes.id(kernel.shape);
}

int on_request(uint64_t, ContextId, int, int, uint64_t, UserData* external, void*) {
  const ThreadCalls& t = t_calls;
  if (t.depth == 0 || !t.open[t.depth - 1].has_stream || !recording()) return 1;  // nothing to report
  const OpenCall& call = t.open[t.depth - 1];
  external->value = kOurs | (call.asynchronous ? kAsync : 0) | call.stream;
  return 0;
}

Told told_by(UserData external) {
  if (external.value >> 48 != kOurs >> 48) return {};
  return {true, (external.value & kAsync) != 0, static_cast<uint32_t>(external.value)};
}

void expect_dispatches() { g_heard.store(true, std::memory_order_relaxed); }

void expect_no_kernels() { g_none.store(true, std::memory_order_relaxed); }

uint64_t dispatches_made() { return g_dispatches.load(std::memory_order_relaxed); }

}  // namespace warpsight::rocm
