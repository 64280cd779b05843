#include "rocm/recorder.h"

#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rocm/agents.h"
#include "rocm/api_rules.h"
#include "rocm/calls.h"
#include "rocm/clock.h"
#include "rocm/decode.h"
#include "rocm/functions.h"
#include "rocm/kernels.h"
#include "runtime/kernel_filter.h"
#include "stacks/stacks.h"
#include "stacks/waiter.h"

namespace warpsight::rocm {
namespace {

constexpr size_t kBufferBytes = 4 << 20, kWatermarkBytes = 1 << 20;
constexpr uint32_t kRetryTicks = 5;      // between attempts to start the context
constexpr uint32_t kClockTicks = 50;     // between comparisons of the clocks
constexpr uint32_t kLastDrainMs = 1000;  // for kernels still running when a recording ends
constexpr uint32_t kDrainStepMs = 5;

// Callbacks receive their record by value, in one of two layouts, which are equivalent for us.
template <class Correlation, void (*hear)(const Heard&)>
void heard(CallbackRecord<Correlation> record, UserData*, void*) {
  hear({record.correlation.internal, record.operation, record.phase, record.payload});
}

template <void (*hear)(const Heard&)>
AnyCallback callback() {
  if (sdk().version >= kFirstStable) return reinterpret_cast<AnyCallback>(&heard<NewCorrelation, hear>);
  return reinterpret_cast<AnyCallback>(&heard<OldCorrelation, hear>);
}

void on_symbols(const Heard& heard) { on_code_object(heard.operation, heard.phase, heard.payload); }

bool wanted(const char* kind) {
  const auto& kinds = settings().trace;
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

void say_missing(const std::string& what, Status status) {
  report_loss("rocm", what + ": rocprofiler-sdk " + version_text() + " says " + status_text(status));
}

}  // namespace

bool RocmRecorder::configure() {
  if (!make_contexts()) return false;
  load_agents();
  trace_symbols();
  trace_records();
  trace_calls();
  usable_ = true;
  return true;
}

bool RocmRecorder::make_contexts() {
  Status status = sdk().create_context(&context_);
  if (status == kSuccess) status = sdk().create_context(&symbols_);
  if (status == kSuccess) {
    status = sdk().create_buffer(context_, kBufferBytes, kWatermarkBytes, kLossless, on_records, nullptr,
                                 &buffer_);
  }
  if (status == kSuccess) return true;
  report_loss("rocm",
              std::string("no GPU work and no HIP calls recorded: rocprofiler-sdk refused us: ") +
                  status_text(status),
              1, Severity::ended);
  return false;
}

// Names come from a context of their own, which is never stopped.
void RocmRecorder::trace_symbols() {
  Status status = sdk().trace_calls(symbols_, kCodeObject, nullptr, 0, callback<on_symbols>(), nullptr);
  if (status == kSuccess) status = sdk().start_context(symbols_);
  if (status != kSuccess) say_missing("kernels have no names", status);
}

void RocmRecorder::trace_records() {
  if (sdk().create_thread != nullptr &&
      sdk().assign_thread != nullptr) {  // else the thread that serves all tools
    ThreadId thread = {};
    if (sdk().create_thread(&thread) == kSuccess) sdk().assign_thread(buffer_, thread);
  }
  const bool kernels = wanted("kernel") && trace_kernels();
  if (!kernels) expect_no_kernels();
  if (wanted("memcpy")) {
    const Status status = sdk().trace_buffered(context_, kMemoryCopy, nullptr, 0, buffer_);
    if (status != kSuccess) say_missing("copies are not recorded", status);
  }
}

// False when there will be no kernel rows.
bool RocmRecorder::trace_kernels() {
  const Status status = sdk().trace_buffered(context_, kKernelDispatch, nullptr, 0, buffer_);
  if (status != kSuccess) {
    say_missing("kernels are not recorded", status);
    return false;
  }
  const int enqueue = kEnqueue;
  const Status told =
      sdk().trace_calls(context_, kKernelDispatchCallback, &enqueue, 1, callback<on_dispatch>(), nullptr);
  if (told == kSuccess) {
    expect_dispatches();
  } else {
    say_missing("launches do not name their kernels", told);
  }
  return true;
}

void RocmRecorder::trace_calls() {
  index_operations();
  const std::vector<int> calls = select_operations(settings().api);
  if (!calls.empty()) {
    const Status status =
        sdk().trace_calls(context_, kHipRuntimeApi, calls.data(), calls.size(), callback<on_call>(), nullptr);
    if (status != kSuccess) say_missing("HIP calls are not recorded, so nothing has a stack", status);
  } else if (settings().api != "off") {
    report_loss("rocm", "HIP calls are not recorded: this rocprofiler-sdk names none");
  }
  const int kinds[] = {kRequestMemoryCopy, kRequestKernelDispatch};
  const Status asked =
      sdk().request_service != nullptr ? sdk().request_service(context_, kinds, 2, on_request, nullptr) : -1;
  if (asked != kSuccess)
    report_loss("rocm",
                "streams are hardware queues: rocprofiler-sdk does not ask for the stream of a dispatch", 1,
                Severity::note);
  if (!wanted("marker") && !wanted("nvtx")) return;
  prepare_markers();
  const Status marked =
      sdk().trace_calls(context_, kMarkerCoreApi, nullptr, 0, callback<on_marker>(), nullptr);
  if (marked != kSuccess)
    report_loss("rocm", std::string("no ROCTx ranges: ") + status_text(marked), 1, Severity::note);
}

void RocmRecorder::start() {
  if (!usable_ || state_ == State::recording) return;
  const Status status = sdk().start_context(context_);
  if (status == kSuccess) {
    if (state_ == State::blocked)
      report_loss("rocm", "rocprofiler-sdk became free: recording begins only here", 1, Severity::note);
    return begin();
  }
  if (state_ != State::blocked) {
    const bool other = status == kConflict;
    report_loss("rocm",
                std::string(other ? "no GPU work recorded while another tool in this process (rocprofv3, "
                                    "torch.profiler) has rocprofiler-sdk: "
                                  : "no GPU work recorded: rocprofiler-sdk does not start: ") +
                    status_text(status));
  }
  state_ = State::blocked;
}

void RocmRecorder::begin() {
  state_ = State::recording;
  report_loss("rocm",
              std::string("recording AMD GPUs in process is untested on hardware (rocprofiler-sdk ") +
                  version_text() + "): compare with rocprofv3 before relying on it",
              1, Severity::note);
  measure_clock();
  write_devices();
  write_function_names();
  write_modules();
  prepare_stacks();
}

// Delivers complete records; `milliseconds` is the longest wait for running kernels.
bool RocmRecorder::drain(uint32_t milliseconds) {
  const uint64_t made = dispatches_made();
  const uint64_t until = now_ns() + milliseconds * 1000000ull;
  for (;;) {
    if (sdk().flush_buffer(buffer_) != kSuccess) return false;
    if (kernels_decoded() >= made) return true;
    if (now_ns() >= until) return false;
    const timespec pause = {0, kDrainStepMs * 1000000};
    nanosleep(&pause, nullptr);
  }
}

void RocmRecorder::stop() {
  if (state_ == State::recording) {
    sdk().stop_context(context_);
    flush(true);
  }
  state_ = State::off;
}

void RocmRecorder::flush(bool forced) {
  if (state_ != State::recording) return;
  drain(forced ? kLastDrainMs : 0);
  if (forced) report_unmatched_patterns("rocm");
  report_records();
}

void RocmRecorder::tick() {
  ++ticks_;
  if (state_ == State::blocked && ticks_ % kRetryTicks == 0) start();
  if (state_ != State::recording) return;
  if (ticks_ % kClockTicks == 0) measure_clock();
  find_passes();
}

void RocmRecorder::finish() {
  if (arena() != nullptr) sdk().flush_buffer(buffer_);
}

}  // namespace warpsight::rocm
