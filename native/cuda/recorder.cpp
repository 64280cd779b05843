#include "cuda/recorder.h"

#include <cstdio>
#include <string>

#include "cuda/activity.h"
#include "cuda/api_rules.h"
#include "cuda/buffers.h"
#include "cuda/callbacks.h"
#include "cuda/capsule.h"
#include "cuda/capture_range.h"
#include "cuda/counters.h"
#include "cuda/detach.h"
#include "cuda/functions.h"
#include "cuda/graph_level.h"
#include "cuda/graphs.h"
#include "cuda/own_threads.h"
#include "cuda/pc_sampling.h"
#include "cuda/sass_counts.h"
#include "cuda/versions.h"
#include "cuda/worker.h"
#include "runtime/kernel_filter.h"
#include "stacks/stacks.h"

namespace warpsight {
namespace {

constexpr uint32_t kRetryTicks = 5;            // between attempts to become CUPTI's subscriber
constexpr uint32_t kQuietTicks = 10;           // before another client is believed to have taken the buffers
constexpr uint64_t kRangeEndsNs = 2000000000;  // wait for the kernels of a range that has ended
constexpr uint32_t kDrainMs = 1000, kLastDrainMs = 1500, kSessionDrainMs = 10000;

bool any_primary_context() {
  int count = 0;
  if (driver().device_get_count == nullptr || driver().primary_state == nullptr) return false;
  if (driver().device_get_count(&count) != CUDA_SUCCESS) return false;
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver().primary_state(device, &flags, &active) == CUDA_SUCCESS && active != 0) return true;
  }
  return false;
}

}  // namespace

void CudaRecorder::start() {
  if (attached() || state_ == State::refused) return;
  if (settings().yield) {
    report_loss("cuda", "CUPTI is left to the program (--yield): no GPU work and no CUDA calls recorded", 1,
                Severity::note);
    state_ = State::refused;
    return;
  }
  if (!load_libraries() || !start_worker()) {
    state_ = State::refused;
    return;
  }
  if (state_ != State::held && !subscribe()) return;
  begin();
  if (session_ == 1) watch_exit();
}

bool CudaRecorder::subscribe() {
  const CUptiResult result =
      cupti().cuptiSubscribe(&subscriber_, capsule_wanted() ? on_shared_callback : on_callback, nullptr);
  if (result == CUPTI_SUCCESS) {
    if (said_blocked_)
      report_loss("cuda", "CUPTI became free: recording begins only here", 1, Severity::note);
    said_blocked_ = false;
    return true;
  }
  state_ = State::blocked;
  if (!said_blocked_) {
    report_loss("cuda",
                std::string("no GPU work recorded while another profiler in this process (torch.profiler, "
                            "Nsight, …) holds CUPTI: ") +
                    result_name(result));
    said_blocked_ = true;
  }
  return false;
}

void CudaRecorder::begin() {
  index_rules();
  // Records of the session before, decoded from here on, would be joined to calls of this one.
  if (session_ != 0 && !drain_worker(kSessionDrainMs)) {
    report_loss("cuda",
                "records of the recording before were decoded too late and may be joined to wrong calls");
  }
  set_session(++session_);
  begin_callback_session();
  begin_worker_session(cupti().version);
  begin_range_session();
  set_modules_incomplete(!injecting_);
  if (!injecting_ && session_ == 1) note_late_start();
  begin_counters(!injecting_ && any_primary_context());
  set_up_activity();
  prepare_stacks();
  if (settings().capture_range) {
    enable_range_callbacks(subscriber_, true);
    set_awaiting_range(true);
    ranges_ = 0;
    if (!in_range()) return await_range();
  }
  switch_on();
}

void CudaRecorder::switch_on() {
  if (state_ != State::ending) enable_kinds(begin_graph_level());
  enable_callbacks(subscriber_, true);
  start_capsule(subscriber_);
  const BufferCounters counters = buffer_counters();
  seen_requests_ = counters.requested + counters.completed;
  launches_at_activity_ = launches_seen();
  quiet_ticks_ = 0;
  if (settings().capture_range) ++ranges_;
  state_ = State::recording;
}

void CudaRecorder::await_range() { state_ = State::waiting; }

// On the program's thread, in the callback of the call that begins or ends the range.
void CudaRecorder::range(bool open) {
  if (open && (state_ == State::waiting || state_ == State::ending)) return switch_on();
  if (open || state_ != State::recording) return;
  enable_callbacks(subscriber_, false);
  enable_range_callbacks(subscriber_, true);
  range_ended_ = now_ns();
  state_ = State::ending;
  if (session_ == 1 && ranges_ == 1) watch_exit();
}

void CudaRecorder::switch_kinds_off() {
  end_graph_level();
  disable_kinds();
}

void CudaRecorder::note_late_start() {
  if (!any_primary_context()) return;
  std::string lacks =
      "recording began after CUDA did: graphs and modules made before have no rows and no stacks";
  if (settings().device_buffer_bytes != 0)
    lacks += "; the device buffer size cannot change in existing contexts";
  report_loss("cuda", lacks, 1, Severity::note);
}

void CudaRecorder::stop() {
  if (state_ == State::blocked) state_ = State::off;
  if (!attached()) return;
  const uint64_t began = now_ns();
  enable_callbacks(subscriber_, false);
  enable_range_callbacks(subscriber_, false);
  set_awaiting_range(false);
  end_graph_level();
  const uint64_t disabled = now_ns();
  end_counters(false);
  flush(true);
  disable_kinds();
  drain_worker(kDrainMs);
  const uint64_t flushed = now_ns();
  leave_cupti();
  if (!settings().verbose) return;
  fprintf(stderr, "warpsight: cuda: stopped: callbacks off %.1f ms, flushed %.1f ms, detached %.1f ms\n",
          static_cast<double>(disabled - began) / 1e6, static_cast<double>(flushed - disabled) / 1e6,
          static_cast<double>(now_ns() - flushed) / 1e6);
}

void CudaRecorder::leave_cupti() {
  const bool unsafe = graphs_seen() && cupti().version < kCupti126;
  if (!unsafe && detach(subscriber_)) {
    drain_worker(kDrainMs);
    abandon_lent();
    subscriber_ = nullptr;
    state_ = State::off;
    return;
  }
  state_ = State::held;
  report_loss("cuda",
              unsafe
                  ? "recording is disabled but stays attached: detaching after CUDA graphs is unsafe before "
                    "CUPTI 12.6, so a small cost may remain"
                  : "recording is disabled but stays attached: CUPTI would not detach",
              1, Severity::note);
}

// Except for instruction counts: launches continue, and nothing may be flushed before the counts have ended.
void CudaRecorder::leaving() {
  if (attached()) end_pc_sampling();
}

void CudaRecorder::exiting() {
  if (attached()) end_counters(true);
  exiting_ = true;
}

void CudaRecorder::flush(bool forced) {
  if (attached() && pc_sampling_broke())
    check_health();  // before calling CUPTI, which may have finalized itself
  if (attached()) flush_records(forced);
  if (exiting_) park_worker();
}

void CudaRecorder::flush_records(bool forced) {
  if (forced) report_no_range();
  if (state_ == State::waiting) return;
  relax_capture_mode();
  // CUPTI patches a kernel's code during its launch, holding a driver lock while it takes its own; its flush
  // thread takes the two in the opposite order, which would deadlock.
  if (!launches_patch_kernels()) cupti().cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  if (!drain_worker(forced ? kLastDrainMs : kDrainMs) && forced) {
    report_loss("cuda", "decoding was not finished in time at the end of the recording");
  }
  if (forced) {
    report_unmatched_patterns("cuda");
    report_unknown_modules();
  }
  report_counters();
}

void CudaRecorder::report_unknown_modules() {
  const uint64_t kernels = take_unknown_modules();
  if (kernels == 0) return;
  report_loss(
      "cuda",
      "kernels of modules that were loaded while nothing was recorded: CUPTI tells of a module, and gives "
      "its code, only when it is loaded, so module, checksum and cubin are unknown",
      kernels, Severity::note, 0, 0, Kernel::kKind);
}

void CudaRecorder::report_no_range() {
  if (!settings().capture_range || ranges_ != 0 || said_no_range_) return;
  said_no_range_ = true;
  report_loss(
      "cuda",
      "--capture-range profiler-api: the program did not call cudaProfilerStart, so nothing was recorded", 1,
      Severity::note);
}

void CudaRecorder::tick() {
  ++ticks_;
  if (state_ == State::ending && range_is_complete()) {
    switch_kinds_off();
    await_range();
  }
  if (state_ == State::blocked && ticks_ % kRetryTicks == 0 && subscribe()) begin();
  if (attached() && state_ != State::ending) check_health();
}

void CudaRecorder::report_counters() {
  report_worker_loss();
  const BufferCounters counters = buffer_counters();
  if (counters.discarded_records != seen_discarded_) {
    report_loss("cuda", "the buffer pool was used up, so these records were thrown away",
                counters.discarded_records - seen_discarded_);
    seen_discarded_ = counters.discarded_records;
  }
  if (counters.foreign != seen_foreign_) {
    report_loss(
        "cuda",
        "buffers of another CUPTI client came to us and were left alone; its records are lost to both",
        counters.foreign - seen_foreign_);
    seen_foreign_ = counters.foreign;
  }
}

// Nothing CUPTI holds can be of the range any more, or it was waited for long enough.
bool CudaRecorder::range_is_complete() const {
  const BufferCounters counters = buffer_counters();
  return counters.requested == counters.completed || now_ns() - range_ended_ > kRangeEndsNs;
}

// CUPTI puts kRecordsPerBuffer records into each of its buffers. If many more launches than that come without
// our buffers being requested or returned, another tool has registered its buffer callbacks over ours.
bool CudaRecorder::buffers_taken_over() {
  const BufferCounters counters = buffer_counters();
  const uint64_t activity = counters.requested + counters.completed;
  if (activity != seen_requests_) {
    seen_requests_ = activity;
    launches_at_activity_ = launches_seen();
    quiet_ticks_ = 0;
    return false;
  }
  const uint64_t lent = counters.requested > counters.completed ? counters.requested - counters.completed : 0;
  if (launches_seen() - launches_at_activity_ < kRecordsPerBuffer * (lent + 1)) return false;
  return ++quiet_ticks_ >= kQuietTicks;
}

void CudaRecorder::check_health() {
  const bool waits = state_ == State::waiting;
  const CUpti_CallbackId heard =
      waits ? CUPTI_DRIVER_TRACE_CBID_cuProfilerStart : CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
  const bool hears = waits || settings().api != "off";
  uint32_t enabled = 1;
  CUptiResult result = CUPTI_SUCCESS;
  if ((hears || pc_sampling_broke()) && cupti().cuptiGetCallbackState != nullptr)
    result = cupti().cuptiGetCallbackState(&enabled, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, heard);
  if (result != CUPTI_SUCCESS || (hears && enabled == 0)) {
    if (pc_sampling_broke()) {
      report_loss("cuda",
                  "CUPTI ended itself when it failed to give samples: GPU work since then is missing");
      abandon_lent();
      state_ = State::refused;
      return;
    }
    report_loss("cuda",
                "another profiler in this process shut CUPTI down (torch.profiler does at its end); GPU work "
                "since then is missing and recording starts again here");
    abandon_lent();
    state_ = State::off;
    if (subscribe()) begin();
    return;
  }
  if (waits || !buffers_taken_over()) return;
  report_loss("cuda",
              "another CUPTI client in this process put its buffers in place of ours; the GPU work of these "
              "launches went to it, and recording takes CUPTI back here",
              launches_seen() - launches_at_activity_);
  set_up_activity();
  disable_kinds();
  enable_kinds(begin_graph_level());
  launches_at_activity_ = launches_seen();
  quiet_ticks_ = 0;
}

}  // namespace warpsight
