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
#include "cuda/metric_set.h"
#include "cuda/modules.h"
#include "cuda/own_threads.h"
#include "runtime/kernel_filter.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr size_t kLaunches = 64;            // that one session of CUPTI's measures
constexpr time_t kPatienceSeconds = 1;      // that the end waits for a launch
constexpr uint64_t kKernelNs = 30000000000; // that a launch waits for its kernel
constexpr uint8_t kKernel = 1, kRange = 2;  // RangeMetric.kind

// A range of the program while it takes its passes, or the launches of one session.
struct Measured {
  std::vector<uint8_t> data;
  size_t pass = 0, level = 0;
  uint32_t times = 0;           // entered since its passes began
  uint64_t start = 0, end = 0;  // of the first and of the last of these
  bool complete = false;
};

// A launch of the open session; its range is named by its index.
struct MeasuredLaunch {
  uint64_t start, end;
  uint32_t name, correlation;
};

struct MeasuredContext {
  CUcontext context;
  uint32_t id;
  CUpti_RangeProfiler_Object* object = nullptr;
  MetricSet metrics;
  std::map<uint32_t, Measured> ranges;  // by their name's id
  Measured* open = nullptr;             // measured now
  Measured session;                     // of launches
  std::vector<MeasuredLaunch> launches; // in it
  bool refused = false;                 // said so, and not asked again
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
thread_local uint32_t t_name = 0;     // its name
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

bool prepare(MeasuredContext* one) {
  uint32_t device = 0;
  if (!available() || !profiler_initialized() ||
      cupti().cuptiGetDeviceId(one->context, &device) != CUPTI_SUCCESS)
    return refuse(one, "this CUPTI has no Range Profiler; CUDA 12.6 brought it");
  std::vector<uint8_t> free_counters;
  if (!availability(one->context, &free_counters)) free_counters.clear();
  const std::string problem = one->metrics.prepare(CUPTI_PROFILER_TYPE_RANGE_PROFILER, device, free_counters);
  if (!problem.empty()) return refuse(one, problem);
  if (!settings().metrics_per_range && one->metrics.passes() > 1)
    return refuse(one, "they need " + std::to_string(one->metrics.passes()) +
                           " passes and a launch takes one: ask for fewer at a time, or measure ranges "
                           "(--metrics-per range)");
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

// In one image.
size_t most_ranges() { return settings().metrics_per_range ? 1 : kLaunches; }

bool clear(MeasuredContext* one, Measured* range) {
  if (range->data.empty()) {
    WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = one->object;
    size.pMetricNames = one->metrics.names();
    size.numMetrics = one->metrics.count();
    size.maxNumOfRanges = most_ranges();
    size.maxNumRangeTreeNodes = static_cast<uint32_t>(most_ranges());
    const CUptiResult result = cupti().cuptiRangeProfilerGetCounterDataSize(&size);
    if (result != CUPTI_SUCCESS) return refuse(one, result, "size of data");
    range->data.resize(size.counterDataSize);
  }
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
  image.pRangeProfilerObject = one->object;
  image.counterDataSize = range->data.size();
  image.pCounterData = range->data.data();
  range->pass = range->level = range->times = 0;
  return cupti().cuptiRangeProfilerCounterDataImageInitialize(&image) == CUPTI_SUCCESS;
}

bool start(MeasuredContext* one, Measured* range) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = one->object;
  config.configSize = one->metrics.image().size();
  config.pConfig = one->metrics.image().data();
  config.counterDataImageSize = range->data.size();
  config.pCounterDataImage = range->data.data();
  config.range = CUPTI_UserRange;
  config.replayMode = CUPTI_UserReplay;
  config.maxRangesPerPass = most_ranges();
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.passIndex = range->pass;
  config.targetNestingLevel = static_cast<uint16_t>(range->level);
  CUptiResult result = cupti().cuptiRangeProfilerSetConfig(&config);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "configuration");
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Start_Params, begin);
  begin.pRangeProfilerObject = one->object;
  result = cupti().cuptiRangeProfilerStart(&begin);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "start");
  if (range->times++ == 0) range->start = now_ns();
  one->open = range;
  return true;
}

// Ends the session; true when the range has taken all its passes.
bool stop(MeasuredContext* one) {
  Measured* range = one->open;
  one->open = nullptr;
  range->end = now_ns();
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Stop_Params, end);
  end.pRangeProfilerObject = one->object;
  CUptiResult result = cupti().cuptiRangeProfilerStop(&end);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "stop");
  range->pass = end.passIndex;
  range->level = end.targetNestingLevel;
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
  decode.pRangeProfilerObject = one->object;
  result = cupti().cuptiRangeProfilerDecodeData(&decode);
  if (result != CUPTI_SUCCESS) return refuse(one, result, "decode");
  return end.isAllPassSubmitted != 0;
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
  return result == CUPTI_SUCCESS && info.rangeName != nullptr ? strtoull(info.rangeName, nullptr, 10) : SIZE_MAX;
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

// Where in the image the range of each launch is; SIZE_MAX where it is not.
std::vector<size_t> launch_indices(const MeasuredContext& one) {
  std::vector<size_t> indices(one.launches.size(), SIZE_MAX);
  const size_t count = one.refused ? 0 : count_ranges(one.session.data);
  for (size_t index = 0; index < count; ++index) {
    const size_t name = range_name(one.session.data, index);
    if (name < indices.size()) indices[name] = index;
  }
  return indices;
}

// Ends the session of launches and writes their metrics.
void collect_launches(MeasuredContext* one) {
  if (one->launches.empty()) return;
  stop(one);
  const std::vector<size_t> indices = launch_indices(*one);
  uint64_t missing = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const MeasuredLaunch& launch = one->launches[i];
    RangeMetric row = {};
    row.start = launch.start;
    row.end = launch.end;
    row.name = launch.name;
    row.correlation = launch.correlation;
    row.kind = kKernel;
    if (indices[i] == SIZE_MAX || !write_range(one, one->session.data, indices[i], row)) ++missing;
  }
  if (missing != 0)
    report_loss("metrics", "launches for which CUPTI gave no metrics", missing, Severity::lost, 0, 0,
                RangeMetric::kKind);
  one->launches.clear();
}

void report_incomplete(MeasuredContext* one) {
  uint64_t ranges = 0, entered = 0;
  for (const auto& [name, range] : one->ranges) {
    if (range.times == 0 || range.complete) continue;
    ++ranges;
    entered = std::max<uint64_t>(entered, range.times);
  }
  if (ranges == 0) return;
  report_loss("metrics",
              "ranges without metrics: they need " + std::to_string(one->metrics.passes()) +
                  " passes, one each time the program enters a range, and it entered these at most " +
                  std::to_string(entered) + " times; ask for fewer metrics at a time",
              ranges, Severity::lost, 0, 0, RangeMetric::kKind);
}

// Under g_lock.
void finish(MeasuredContext* one) {
  collect_launches(one);
  if (one->open != nullptr) stop(one);
  report_incomplete(one);
  if (g_ranged == one) g_ranged = nullptr;
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
  return driver().stream_is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
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

// Opens the range of a launch, in a session that this begins where there is none.
bool begin_launch(MeasuredContext* one) {
  if (one->launches.empty() && !(clear(one, &one->session) && start(one, &one->session))) return false;
  if (!push(one, one->launches.size())) return collect_launches(one), false;
  one->launches.push_back({now_ns(), 0, 0, 0});
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
  if (one != nullptr && !one->refused && begin_launch(one)) {
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
    refuse(one, "a kernel did not end before the next launch; ask for metrics of ranges instead (--metrics-per range)");
  MeasuredLaunch& launch = one->launches.back();
  launch.end = now_ns();
  launch.name = name;
  launch.correlation = correlation;
  pop(one);
  if (one->refused || one->launches.size() == kLaunches) collect_launches(one);
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
  Measured* range = &one->ranges[name];
  if ((range->times == 0 || range->complete) && !clear(one, range)) return;
  range->complete = false;
  if (!start(one, range) || !push(one, name)) return;
  g_ranged = one;
  t_range = t_depth;
  t_name = name;
}

void metric_range_ends() {
  const uint32_t depth = t_depth;
  if (t_depth != 0) --t_depth;
  if (t_range == 0 || depth != t_range) return;
  t_range = 0;
  const Guard guard;
  MeasuredContext* one = g_ranged;
  g_ranged = nullptr;
  if (one == nullptr || one->open == nullptr) return;
  pop(one);
  Measured* range = one->open;
  if (!stop(one)) return;
  RangeMetric row = {};
  row.start = range->start;
  row.end = range->end;
  row.name = t_name;
  row.kind = kRange;
  if (count_ranges(range->data) != 0) write_range(one, range->data, 0, row);
  range->complete = true;
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
    collect_launches(one);
    report_incomplete(one);
  }
  contexts().clear();
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
