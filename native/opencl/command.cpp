#include "command.h"

#include "command_pool.h"
#include "runtime/own_time.h"

namespace warpsight {
namespace {

// Commands whose end we have not heard of, in the whole process.
std::atomic<int32_t> g_outstanding{0};

std::atomic<int32_t> g_cold{0};

// Launches (kernel and shape) that have completed once.
HandleMap<bool>& warm_launches() {
  static auto& map = *new HandleMap<bool>;
  return map;
}

const void* launch_key(const ClKernel* kernel, uint32_t shape) {
  uint64_t mixed = reinterpret_cast<uint64_t>(kernel) ^ (uint64_t{kernel->module} << 40);
  return reinterpret_cast<const void*>((mixed * 0x9E3779B97F4A7C15ull + shape) | 1);
}

bool is_cold(const ClKernel* kernel, uint32_t shape) {
  if (!kernel || kernel->warm_shape.load(std::memory_order_relaxed) == shape) return false;
  bool warm = false;
  return !warm_launches().get(launch_key(kernel, shape), &warm);
}

struct EventMark {
  uint64_t correlation;
  uint32_t recording;
};
HandleMap<EventMark>& event_marks() {
  static auto& map = *new HandleMap<EventMark>;
  return map;
}

void write_kernel(const Command& command, const DeviceTimes& times, const DeviceClock& clock) {
  Kernel row{};
  if (times.start) {
    row.start = clock.to_host(times.start);
    row.end = clock.to_host(times.end);
  }
  row.correlation = command.correlation;
  row.name = command.name;
  row.shape = command.shape;
  row.context = command.queue->context;
  row.stream = command.queue->id;
  row.device = command.queue->device->index;
  row.module = command.module;
  if (times.queued) row.queued = clock.to_host(times.queued);
  if (times.submitted) row.submitted = clock.to_host(times.submitted);
  write(row);
}

void write_copy(const Command& command, const DeviceTimes& times, const DeviceClock& clock) {
  Memcpy row{};
  row.start = clock.to_host(times.start);
  row.end = clock.to_host(times.end);
  row.bytes = command.bytes;
  row.correlation = command.correlation;
  row.context = command.queue->context;
  row.stream = command.queue->id;
  row.device = command.queue->device->index;
  row.source_device = row.destination_device = UINT16_MAX;
  row.kind = command.copy;
  row.source_kind = command.source;
  row.destination_kind = command.destination;
  row.flags = command.blocking ? 0 : 1;
  row.copies = 1;
  write(row);
}

void write_fill(const Command& command, const DeviceTimes& times, const DeviceClock& clock) {
  Memset row{};
  row.start = clock.to_host(times.start);
  row.end = clock.to_host(times.end);
  row.bytes = command.bytes;
  row.correlation = command.correlation;
  row.context = command.queue->context;
  row.stream = command.queue->id;
  row.value = command.value;
  row.device = command.queue->device->index;
  row.memory_kind = command.source;
  row.flags = 1;
  write(row);
}

bool read_times(cl_event event, DeviceTimes* times) {
  auto read = [event](cl_profiling_info what, uint64_t* value) {
    cl_ulong stamp = 0;
    cl_int result = g_cl.clGetEventProfilingInfo(event, what, sizeof(stamp), &stamp, nullptr);
    *value = stamp;
    return result == CL_SUCCESS;
  };
  return read(CL_PROFILING_COMMAND_QUEUED, &times->queued) &&
         read(CL_PROFILING_COMMAND_SUBMIT, &times->submitted) &&
         read(CL_PROFILING_COMMAND_START, &times->start) && read(CL_PROFILING_COMMAND_END, &times->end);
}

// Writes the row of a completed command.
void write_work(const Command& command, cl_event event, cl_int status) {
  uint64_t heard = now_ns();
  DeviceTimes times{};
  DeviceClock& clock = *command.queue->device->clock;
  bool timed = status == CL_COMPLETE && read_times(event, &times) &&
               clock.learn(times, {command.entry, command.returned, heard});
  if (!timed) {
    times = {};
    report_loss("opencl",
                status < 0 ? "a command ended with an error on the device: no times"
                           : "the driver gave no timestamps for a command",
                1, Severity::lost, command.entry, heard,
                command.work == Work::kernel ? Kernel::kKind : Memcpy::kKind);
    if (command.work == Work::kernel) write_kernel(command, times, clock);
    return;
  }
  if (command.work == Work::kernel) write_kernel(command, times, clock);
  if (command.work == Work::copy) write_copy(command, times, clock);
  if (command.work == Work::fill) write_fill(command, times, clock);
  clock.report(false);
}

// Counts a command in, or out again.
void count(ClQueue* queue, bool cold, int32_t change) {
  if (cold) g_cold.fetch_add(change, std::memory_order_release);
  g_outstanding.fetch_add(change, std::memory_order_release);
  queue->pending.fetch_add(change, std::memory_order_release);  // the queue may go from here on
}

void end_command(cl_event event, cl_int status, Command* command) {
  if (arena()) write_work(*command, event, status);
  bool owned = command->owned, cold = command->cold;
  ClQueue* queue = command->queue;
  if (cold) {
    command->kernel->warm_shape.store(command->shape, std::memory_order_relaxed);
    warm_launches().put(launch_key(command->kernel, command->shape), true);
    wait_first_at_exit();
  }
  give_command(command);
  if (owned) g_cl.clReleaseEvent(event);
  count(queue, cold, -1);
}

void CL_CALLBACK on_complete(cl_event event, cl_int status, void* data) {
  if (g_cl_forked) return;
  end_command(event, status, static_cast<Command*>(data));
}

bool row_wanted(Work work) {
  switch (work) {
    case Work::kernel:
      return g_cl_kinds.kernel;
    case Work::copy:
      return g_cl_kinds.memcpy;
    case Work::fill:
      return g_cl_kinds.memset;
    case Work::none:
      break;
  }
  return false;
}

}  // namespace

int32_t cold_commands() { return g_cold.load(std::memory_order_acquire); }

int32_t outstanding_commands() { return g_outstanding.load(std::memory_order_acquire); }

EnqueueCall::EnqueueCall(const Request& request, cl_event* program_event)
    : request_(request), place_(program_event), correlation_(next_correlation()) {
  const OwnTime own(OwnSite::opencl);
  queue_ = find_queue(request.queue);
  timed_ = row_wanted(request.work) && queue_ && queue_->profiled;
  if (!place_ && timed_) place_ = &own_;
  // Before the call: the program may let its new event take the place of one it waits for.
  write_flows(request.wait_count, request.waits, correlation_);
  entry_ = now_ns();
}

void EnqueueCall::finish(cl_int result) {
  const OwnTime own(OwnSite::opencl);
  uint64_t returned = now_ns();
  uint32_t name = request_.name ? intern_c(request_.name) : 0;
  uint32_t stack = capture_stack(2);
  write_api(result, returned, stack, name);
  if (request_.blocking) write_sync(7, correlation_, queue_, entry_, returned, result);
  if (result != CL_SUCCESS || !place_ || !*place_) return;
  cl_event event = *place_;
  bool ours = place_ == &own_;
  if (!ours) mark_event(event, correlation_);
  if (!timed_) return;

  Command* command = take_command();
  if (!command) {
    report_loss("opencl", "no memory for a command under way", 1, Severity::lost, entry_, returned);
    if (ours) g_cl.clReleaseEvent(event);
    return;
  }
  bool cold = is_cold(request_.kernel, request_.shape);
  *command = Command{nullptr,
                     command->pool,
                     queue_,
                     request_.kernel,
                     entry_,
                     returned,
                     request_.bytes,
                     correlation_,
                     name,
                     request_.shape,
                     request_.module,
                     request_.value,
                     request_.work,
                     request_.copy,
                     request_.source,
                     request_.destination,
                     request_.blocking,
                     cold,
                     ours};
  count(queue_, cold, 1);
  if (request_.ends_before_return) {  // no notification needed
    end_command(event, CL_COMPLETE, command);
    return;
  }
  if (g_cl.clSetEventCallback(event, CL_COMPLETE, on_complete, command) == CL_SUCCESS) return;
  report_loss("opencl", "the driver refused an event callback", 1, Severity::lost, entry_, returned);
  give_command(command);
  if (ours) g_cl.clReleaseEvent(event);
  count(queue_, cold, -1);
}

void EnqueueCall::write_api(cl_int result, uint64_t returned, uint32_t stack, uint32_t name) const {
  bool launch = request_.work == Work::kernel;
  if (!launch && !g_cl_wanted[request_.function]) return;
  Api row{};
  row.start = entry_;
  row.duration = returned - entry_;
  row.correlation = correlation_;
  row.stack = stack;
  row.name = name;
  row.result = result;
  row.function = request_.function;
  row.domain = kApiOpencl;
  row.flags = launch ? (timed_ ? 1 : 1 | 8) : 0;  // 8: no row of the kernel will come
  row.shape = request_.shape;
  row.object = reinterpret_cast<uint64_t>(request_.queue);
  row.bytes = request_.bytes;
  write(row);
}

HostCall::HostCall(ClFunction called, uint64_t about, uint64_t size)
    : function(called), correlation(next_correlation()), entry(now_ns()), object(about), bytes(size) {}

uint32_t HostCall::stack() {
  if (!stack_taken) stack_id = capture_stack(2);
  stack_taken = true;
  return stack_id;
}

void HostCall::finish(cl_int result) {
  if (!returned) returned = now_ns();
  if (!g_cl_wanted[function]) return;
  Api row{};
  row.start = entry;
  row.duration = returned - entry;
  row.correlation = correlation;
  row.stack = stack();
  row.result = result;
  row.function = function;
  row.domain = kApiOpencl;
  row.object = object;
  row.bytes = bytes;
  write(row);
}

void write_sync(uint32_t type, uint32_t correlation, const ClQueue* queue, uint64_t start, uint64_t end,
                cl_int result) {
  if (!g_cl_kinds.sync) return;
  Sync row{};
  row.start = start;
  row.end = end;
  row.correlation = correlation;
  row.context = queue ? queue->context : 0;
  row.stream = queue ? queue->id : UINT32_MAX;
  row.type = type;
  row.result = result;
  write(row);
}

void mark_event(cl_event event, uint32_t correlation) {
  if (event) event_marks().put(event, {full_correlation(correlation), g_cl_recording});
}

void write_flows(cl_uint count, const cl_event* events, uint32_t correlation) {
  if (!events || !g_cl_kinds.flow) return;
  for (cl_uint i = 0; i < count; ++i) {
    EventMark mark;
    // A mark of an earlier recording may be of another event at the same address.
    if (!event_marks().get(events[i], &mark) || mark.recording != g_cl_recording) continue;
    Flow row{};
    row.from_correlation = mark.correlation;
    row.to_correlation = full_correlation(correlation);
    row.kind = 1;
    write(row);
  }
}

}  // namespace warpsight
