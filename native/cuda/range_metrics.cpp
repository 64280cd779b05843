#include "cuda/range_metrics.h"

#include <pthread.h>
#include <sched.h>

#include <map>
#include <string>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/functions.h"
#include "cuda/metric_passes.h"
#include "cuda/modules.h"
#include "cuda/own_threads.h"
#include "cuda/range_session.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"
#include "runtime/timed_wait.h"

namespace warpsight {
namespace {

constexpr uint32_t kPatienceMs = 1000;       // that the end waits for a launch
constexpr uint64_t kKernelNs = 30000000000;  // that a launch waits for its kernel
constexpr uint8_t kKernel = 1, kRange = 2;   // RangeMetric.kind

// A launch or a range of the program; CUPTI's range for it is named by its index in the session.
struct Span {
  uint64_t start, end;
  uint32_t name, correlation;
};

struct MeasuredContext {
  CUcontext context;
  uint32_t id;
  RangeSession session;
  std::vector<Span> spans;  // in it; none if no session is open
  PassState passes = {};    // of the open session, before it
  uint64_t sessions = 0;    // ended
  uint64_t waiting = 0;     // launches or ranges that have passes left for further runs
  bool refused = false;     // the loss is reported, and it is not tried again
};

// Protects everything below and CUPTI's session. Held from the start of a launch to the end of its kernel,
// because a session belongs to the whole context: kernels that are measured run one at a time.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<MeasuredContext*>& contexts() {
  static auto* const value =
      new std::vector<MeasuredContext*>;  // never destroyed: callbacks outlive static destructors
  return *value;
}
uint32_t g_range = 0;                              // RangeMetric.range given last
thread_local MeasuredContext* t_launch = nullptr;  // whose launch this thread measures, under g_lock
thread_local CUstream t_stream = nullptr;          // where it goes
thread_local uint32_t t_depth = 0;                 // of this thread's ranges
thread_local uint32_t t_range = 0;    // depth at which this thread opened the measured range, 0: none
MeasuredContext* g_ranged = nullptr;  // whose range is open

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

// False, and the context is not measured any more, where there is a problem.
bool fine(MeasuredContext* one, const std::string& problem) {
  if (problem.empty()) return true;
  if (!one->refused) report_loss("metrics", "no metrics of this context: " + problem);
  one->refused = true;
  return false;
}

// The context's state, made at its first use.
MeasuredContext* measured(CUcontext context) {
  for (MeasuredContext* one : contexts()) {
    if (one->context == context) return one;
  }
  auto* one = new MeasuredContext;
  one->context = context;
  one->id = context_id(context);
  contexts().push_back(one);
  fine(one, one->session.enable(context));
  return one;
}

// Writes the metrics of the range at `index` of the image; `row` identifies its owner.
bool write_range(MeasuredContext* one, size_t index, RangeMetric row) {
  MetricSet& metrics = one->session.metrics;
  const std::vector<double>& values = metrics.evaluate(one->session.data(), index);
  row.context = one->id;
  row.passes = static_cast<uint16_t>(metrics.passes());
  row.range = ++g_range;
  for (size_t i = 0; i < values.size(); ++i) {
    row.metric = metrics.name_id(i);
    row.value = values[i];
    write(row, OnFull::wait);
  }
  return !values.empty();
}

void lose(const char* cause, uint64_t count) {
  if (count != 0) report_loss("metrics", cause, count, Severity::lost, 0, 0, RangeMetric::kKind);
}

void write_spans(MeasuredContext* one) {
  const std::vector<size_t> indices = one->session.indices(one->spans.size());
  uint64_t missing = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Span& span = one->spans[i];
    RangeMetric row = {};
    row.start = span.start;
    row.end = span.end;
    row.name = span.name;
    row.correlation = span.correlation;
    row.kind = settings().metrics_per_range ? kRange : kKernel;
    if (indices[i] == SIZE_MAX || !write_range(one, indices[i], row)) ++missing;
  }
  lose("launches or ranges for which CUPTI gave no metrics", missing);
}

// How many spans there are and which have the same name, as a number: names have other ids in another run.
uint64_t pattern_of(const std::vector<Span>& spans) {
  std::map<uint32_t, uint64_t> seen;
  uint64_t pattern = spans.size();
  for (const Span& span : spans)
    pattern = pattern * 1099511628211u + seen.emplace(span.name, seen.size()).first->second;
  return pattern;
}

// Saves the measurement for the next pass, or writes it after the last one.
void keep_or_write(MeasuredContext* one, PassState next, bool complete) {
  next.pattern = pattern_of(one->spans);
  if (one->passes.pass != 0 && one->passes.pattern != next.pattern) {
    lose("launches or ranges that differ from those of the run before, so passes cannot be put together",
         one->spans.size());
  } else if (!complete) {
    fine(one, save_passes(one->id, one->sessions, next, one->session.data()));
    one->waiting += one->spans.size();
  } else {
    write_spans(one);
    if (one->session.several_passes()) forget_passes(one->id, one->sessions);
  }
}

// Ends the session.
void collect(MeasuredContext* one) {
  if (one->spans.empty()) return;
  PassState next = {};
  bool complete = false;
  if (fine(one, one->session.end(&next, &complete)) && !one->refused)
    keep_or_write(one, next, complete);
  else
    lose("launches or ranges for which CUPTI gave no metrics", one->spans.size());
  ++one->sessions;
  one->spans.clear();
}

// Opens a CUPTI range, and first a session if there is none.
bool begin_span(MeasuredContext* one, uint32_t name) {
  RangeSession& session = one->session;
  if (one->spans.empty() && !(fine(one, session.set_up_data(one->id, one->sessions, &one->passes)) &&
                              fine(one, session.begin(one->passes))))
    return false;
  if (!fine(one, session.push(one->spans.size()))) return collect(one), false;
  one->spans.push_back({now_ns(), 0, name, 0});
  return true;
}

void end_span(MeasuredContext* one) {
  one->spans.back().end = now_ns();
  fine(one, one->session.pop());
  if (one->refused || one->spans.size() == RangeSession::kRanges) collect(one);
}

void report_waiting(const MeasuredContext& one) {
  if (one.waiting == 0) return;
  report_loss(
      "metrics",
      "launches or ranges wait for further passes: run the program again with the same --metrics-passes",
      one.waiting, Severity::note, 0, 0, RangeMetric::kKind);
}

// Under g_lock.
void finish(MeasuredContext* one) {
  if (g_ranged == one) {
    end_span(one);
    g_ranged = nullptr;
  }
  collect(one);
  report_waiting(*one);
  one->session.disable();
  delete one;
}

bool wanted() { return !settings().metrics.empty() && settings().pm_sampling_us == 0; }

// Captured work runs later, and waiting for it now is not allowed.
bool captures(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().stream_is_capturing == nullptr) return false;
  return driver().stream_is_capturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Polls, because a wait would be recorded as the program's. False when the work does not end.
bool wait_for(CUstream stream) {
  const uint64_t until = now_ns() + kKernelNs;
  while (driver().stream_query != nullptr && driver().stream_query(stream) == CUDA_ERROR_NOT_READY) {
    if (now_ns() > until) return false;
    sched_yield();
  }
  return true;
}

}  // namespace

bool launches_measured() { return wanted() && !settings().metrics_per_range; }
bool ranges_measured() { return wanted() && settings().metrics_per_range; }

void measured_launch_begins(CUcontext context, const char* kernel, CUstream stream) {
  if (t_launch != nullptr || captures(stream)) return;
  if (kernels_filtered() && kernel != nullptr && !kernel_wanted(intern_c(kernel), kernel)) return;
  relax_capture_mode();
  pthread_mutex_lock(&g_lock);
  MeasuredContext* one = measured(context);
  if (!one->refused && begin_span(one, 0)) {
    t_launch = one;
    t_stream = stream;
    return;  // the lock is held until the kernel ends
  }
  pthread_mutex_unlock(&g_lock);
}

void measured_launch_ends(uint32_t name, uint32_t correlation) {
  MeasuredContext* one = t_launch;
  if (one == nullptr) return;
  t_launch = nullptr;
  if (!wait_for(t_stream))
    fine(one,
         "a kernel did not end before the next launch; ask for metrics of ranges instead (--metrics-per "
         "range)");
  one->spans.back().name = name;
  one->spans.back().correlation = correlation;
  end_span(one);
  pthread_mutex_unlock(&g_lock);
}

void metric_range_begins(uint32_t name) {
  ++t_depth;
  if (!ranges_measured() || t_range != 0 || !recording() || name == 0) return;
  CUcontext context = nullptr;
  if (driver().current_context == nullptr || driver().current_context(&context) != CUDA_SUCCESS ||
      context == nullptr)
    return;
  const Guard guard;
  if (g_ranged != nullptr) return;  // another thread's is open
  MeasuredContext* one = measured(context);
  if (one->refused) return;
  if (!begin_span(one, name)) return;
  g_ranged = one;
  t_range = t_depth;
}

void metric_range_ends() {
  const uint32_t depth = t_depth;
  if (t_depth != 0) --t_depth;
  if (t_range == 0 || depth != t_range) return;
  t_range = 0;
  const Guard guard;
  MeasuredContext* one = g_ranged;
  g_ranged = nullptr;
  if (one != nullptr) end_span(one);
}

void end_measuring_of(CUcontext context) {
  if (!wanted()) return;
  const Guard guard;
  std::vector<MeasuredContext*> left;
  for (MeasuredContext* one : contexts()) {
    if (one->context == context)
      finish(one);
    else
      left.push_back(one);
  }
  contexts().swap(left);
}

void end_measuring(bool exiting) {
  if (!wanted()) return;
  // A thread may hold the lock for a launch that never returns.
  if (!lock_within(&g_lock, kPatienceMs)) return;
  for (MeasuredContext* one : contexts()) {
    if (!exiting) {
      finish(one);
      continue;
    }
    if (g_ranged == one) end_span(one);
    collect(one);
    report_waiting(*one);
  }
  contexts().clear();
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
