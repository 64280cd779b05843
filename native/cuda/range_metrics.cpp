#include "cuda/range_metrics.h"

#include <cupti_range_profiler.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/functions.h"
#include "cuda/metric_passes.h"
#include "cuda/metric_set.h"
#include "cuda/modules.h"
#include "cuda/own_threads.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr size_t kSpans = 64;                // that one session of CUPTI's measures
constexpr time_t kPatienceSeconds = 1;       // that the end waits for a launch
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
  CUpti_RangeProfiler_Object* object = nullptr;
  MetricSet metrics;
  std::vector<uint8_t> data;  // of the open session
  std::vector<Span> spans;    // in it; none: no session is open
  PassState passes = {};      // of the open session, before it
  uint64_t sessions = 0;      // begun
  uint64_t waiting = 0;       // launches or ranges that have passes left for further runs
  bool refused = false;       // said so, and not asked again
};

// Protects everything below and CUPTI's session. Held from the begin of a launch to the end of its kernel,
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
thread_local uint32_t t_range = 0;    // depth at which this thread opened the measured range, 0 none
MeasuredContext* g_ranged = nullptr;  // whose range is open

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

bool available() {
  const CuptiFunctions& c = cupti();
  return profiler() == Profiler::cupti && c.cuptiRangeProfilerEnable != nullptr &&
         c.cuptiRangeProfilerDisable != nullptr && c.cuptiRangeProfilerSetConfig != nullptr &&
         c.cuptiRangeProfilerStart != nullptr && c.cuptiRangeProfilerStop != nullptr &&
         c.cuptiRangeProfilerDecodeData != nullptr && c.cuptiRangeProfilerPushRange != nullptr &&
         c.cuptiRangeProfilerPopRange != nullptr && c.cuptiRangeProfilerGetCounterDataSize != nullptr &&
         c.cuptiRangeProfilerCounterDataImageInitialize != nullptr &&
         c.cuptiRangeProfilerGetCounterDataInfo != nullptr &&
         c.cuptiRangeProfilerCounterDataGetRangeInfo != nullptr &&
         c.cuptiProfilerGetCounterAvailability != nullptr && c.cuptiGetDeviceId != nullptr;
}

bool refuse(MeasuredContext* one, const std::string& why) {
  if (!one->refused) report_loss("metrics", "no metrics of this context: " + why);
  one->refused = true;
  return false;
}

bool refuse(MeasuredContext* one, CUptiResult result, const char* step) {
  return refuse(one, counter_remedy(result) + " (" + step + ": " + result_name(result) + ")");
}

bool availability(CUcontext context, std::vector<uint8_t>* image) {
  WARPSIGHT_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, ask);
  ask.ctx = context;
  if (cupti().cuptiProfilerGetCounterAvailability(&ask) != CUPTI_SUCCESS) return false;
  image->resize(ask.counterAvailabilityImageSize);
  ask.pCounterAvailabilityImage = image->data();
  return cupti().cuptiProfilerGetCounterAvailability(&ask) == CUPTI_SUCCESS;
}

bool several_passes(const MeasuredContext& one) { return one.metrics.passes() > 1; }

bool prepare(MeasuredContext* one) {
  uint32_t device = 0;
  if (!available() || !profiler_initialized() ||
      cupti().cuptiGetDeviceId(one->context, &device) != CUPTI_SUCCESS)
    return refuse(one, "this CUPTI has no Range Profiler; CUDA 12.6 brought it");
  std::vector<uint8_t> free_counters;
  if (!availability(one->context, &free_counters)) free_counters.clear();
  const std::string problem = one->metrics.prepare(CUPTI_PROFILER_TYPE_RANGE_PROFILER, device, free_counters);
  if (!problem.empty()) return refuse(one, problem);
  if (settings().metrics_passes.empty() && one->metrics.passes() > 1)
    return refuse(one,
                  "they need " + std::to_string(one->metrics.passes()) +
                      " passes and a run of the program takes one: ask for fewer at a time, or run it as "
                      "often with --metrics-passes FOLDER, as `warpsight sass metrics` does");
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Enable_Params, on);
  on.ctx = one->context;
  const CUptiResult result = cupti().cuptiRangeProfilerEnable(&on);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "begin");
  one->object = on.pRangeProfilerObject;
  return true;
}

// The context's state, made at its first use; null when it cannot be measured.
MeasuredContext* measured(CUcontext context) {
  for (MeasuredContext* one : contexts()) {
    if (one->context == context) return one->object != nullptr ? one : nullptr;
  }
  auto* one = new MeasuredContext;
  one->context = context;
  one->id = context_id(context);
  contexts().push_back(one);
  return prepare(one) ? one : nullptr;
}

// Makes an image for the session that begins, with what earlier runs measured of it.
bool set_up_data(MeasuredContext* one) {
  if (one->data.empty()) {
    WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = one->object;
    size.pMetricNames = one->metrics.names();
    size.numMetrics = one->metrics.count();
    size.maxNumOfRanges = kSpans;
    size.maxNumRangeTreeNodes = kSpans;
    const CUptiResult result = cupti().cuptiRangeProfilerGetCounterDataSize(&size);
    if (result != CUPTI_SUCCESS) return refuse(one, result, "size of data");
    one->data.resize(size.counterDataSize);
  }
  one->passes = {};
  if (several_passes(*one) && load_passes(one->id, one->sessions, &one->passes, &one->data)) return true;
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
  image.pRangeProfilerObject = one->object;
  image.counterDataSize = one->data.size();
  image.pCounterData = one->data.data();
  const CUptiResult result = cupti().cuptiRangeProfilerCounterDataImageInitialize(&image);
  return result == CUPTI_SUCCESS || refuse(one, result, "data");
}

bool begin_session(MeasuredContext* one) {
  if (!set_up_data(one)) return false;
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = one->object;
  config.configSize = one->metrics.image().size();
  config.pConfig = one->metrics.image().data();
  config.counterDataImageSize = one->data.size();
  config.pCounterDataImage = one->data.data();
  config.range = CUPTI_UserRange;
  config.replayMode = several_passes(*one) ? CUPTI_ApplicationReplay : CUPTI_UserReplay;
  config.maxRangesPerPass = kSpans;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.passIndex = one->passes.pass;
  config.targetNestingLevel = static_cast<uint16_t>(one->passes.level);
  CUptiResult result = cupti().cuptiRangeProfilerSetConfig(&config);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "configuration");
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Start_Params, begin);
  begin.pRangeProfilerObject = one->object;
  result = cupti().cuptiRangeProfilerStart(&begin);
  return result == CUPTI_SUCCESS || refuse(one, result, "start");
}

// Ends the session; `next` is what a further run is to take, false when this was the last pass.
bool end_session(MeasuredContext* one, PassState* next) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Stop_Params, end);
  end.pRangeProfilerObject = one->object;
  CUptiResult result = cupti().cuptiRangeProfilerStop(&end);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "stop");
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
  decode.pRangeProfilerObject = one->object;
  result = cupti().cuptiRangeProfilerDecodeData(&decode);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "decode");
  *next = {end.passIndex, end.targetNestingLevel, 0};
  return several_passes(*one) && end.isAllPassSubmitted == 0;
}

bool push(MeasuredContext* one, size_t name) {
  const std::string text = std::to_string(name);
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
  push.pRangeProfilerObject = one->object;
  push.pRangeName = text.c_str();
  const CUptiResult result = cupti().cuptiRangeProfilerPushRange(&push);
  return result == CUPTI_SUCCESS || refuse(one, result, "begin of a range");
}

bool pop(MeasuredContext* one) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
  pop.pRangeProfilerObject = one->object;
  const CUptiResult result = cupti().cuptiRangeProfilerPopRange(&pop);
  return result == CUPTI_SUCCESS || refuse(one, result, "end of a range");
}

size_t count_ranges(const std::vector<uint8_t>& data) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = data.data();
  info.counterDataImageSize = data.size();
  return cupti().cuptiRangeProfilerGetCounterDataInfo(&info) == CUPTI_SUCCESS ? info.numTotalRanges : 0;
}

// The number that push() gave a range as its name.
size_t range_name(const std::vector<uint8_t>& data, size_t index) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params, info);
  info.pCounterDataImage = data.data();
  info.counterDataImageSize = data.size();
  info.rangeIndex = index;
  info.rangeDelimiter = "/";
  const CUptiResult result = cupti().cuptiRangeProfilerCounterDataGetRangeInfo(&info);
  return result == CUPTI_SUCCESS && info.rangeName != nullptr ? strtoull(info.rangeName, nullptr, 10)
                                                              : SIZE_MAX;
}

// Writes the metrics of the range at `index` of an image; `row` says whose they are.
bool write_range(MeasuredContext* one, const std::vector<uint8_t>& data, size_t index, RangeMetric row) {
  const std::vector<double>& values = one->metrics.evaluate(data, index);
  row.context = one->id;
  row.passes = static_cast<uint16_t>(one->metrics.passes());
  row.range = ++g_range;
  for (size_t i = 0; i < values.size(); ++i) {
    row.metric = one->metrics.name_id(i);
    row.value = values[i];
    write(row, OnFull::wait);
  }
  return !values.empty();
}

// Where in the image the range of each span is; SIZE_MAX where it is not.
std::vector<size_t> range_indices(const MeasuredContext& one) {
  std::vector<size_t> indices(one.spans.size(), SIZE_MAX);
  const size_t count = one.refused ? 0 : count_ranges(one.data);
  for (size_t index = 0; index < count; ++index) {
    const size_t name = range_name(one.data, index);
    if (name < indices.size()) indices[name] = index;
  }
  return indices;
}

void lose(const char* cause, uint64_t count) {
  if (count != 0) report_loss("metrics", cause, count, Severity::lost, 0, 0, RangeMetric::kKind);
}

void write_spans(MeasuredContext* one) {
  const std::vector<size_t> indices = range_indices(*one);
  uint64_t missing = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Span& span = one->spans[i];
    RangeMetric row = {};
    row.start = span.start;
    row.end = span.end;
    row.name = span.name;
    row.correlation = span.correlation;
    row.kind = settings().metrics_per_range ? kRange : kKernel;
    if (indices[i] == SIZE_MAX || !write_range(one, one->data, indices[i], row)) ++missing;
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

// Ends the session and writes its metrics, or keeps them for the next pass.
void collect(MeasuredContext* one) {
  if (one->spans.empty()) return;
  PassState next = {};
  const bool more = end_session(one, &next);
  next.pattern = pattern_of(one->spans);
  const uint64_t session = one->sessions++;
  if (!one->refused && one->passes.pass != 0 && one->passes.pattern != next.pattern) {
    lose("launches or ranges that differ from those of the run before, so passes cannot be put together",
         one->spans.size());
  } else if (more) {
    const std::string problem = save_passes(one->id, session, next, one->data);
    if (!problem.empty()) refuse(one, problem);
    one->waiting += one->spans.size();
  } else {
    write_spans(one);
    if (several_passes(*one)) forget_passes(one->id, session);
  }
  one->spans.clear();
}

// Opens a range of CUPTI's, in a session that this begins where there is none.
bool begin_span(MeasuredContext* one, uint32_t name) {
  if (one->spans.empty() && !begin_session(one)) return false;
  if (!push(one, one->spans.size())) return collect(one), false;
  one->spans.push_back({now_ns(), 0, name, 0});
  return true;
}

void end_span(MeasuredContext* one) {
  one->spans.back().end = now_ns();
  pop(one);
  if (one->refused || one->spans.size() == kSpans) collect(one);
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
  if (one->object != nullptr) {
    WARPSIGHT_PARAMS(CUpti_RangeProfiler_Disable_Params, off);
    off.pRangeProfilerObject = one->object;
    cupti().cuptiRangeProfilerDisable(&off);
  }
  delete one;
}

bool wanted() { return !settings().metrics.empty() && settings().pm_sampling_us == 0; }

// What a stream captures runs later, and nothing may wait for it now.
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
  if (one != nullptr && !one->refused && begin_span(one, 0)) {
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
    refuse(one,
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
  if (one == nullptr || one->refused) return;
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
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kPatienceSeconds;
  if (pthread_mutex_timedlock(&g_lock, &until) != 0) return;
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
