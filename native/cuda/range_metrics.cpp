#include "cuda/range_metrics.h"

#include <cupti_range_profiler.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
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

constexpr size_t kRanges = 4;               // in an image: one range, and what CUPTI may add of its own
constexpr time_t kPatienceSeconds = 1;      // that the end waits for a launch
constexpr uint8_t kKernel = 1, kRange = 2;  // RangeMetric.kind

// What is known of one range while it takes its passes.
struct Measured {
  std::vector<uint8_t> data;
  size_t pass = 0, level = 0;
  uint32_t times = 0;           // entered since its passes began
  uint64_t start = 0, end = 0;  // of the first and of the last of these
  bool complete = false;
};

struct MeasuredContext {
  CUcontext context;
  uint32_t id;
  CUpti_RangeProfiler_Object* object = nullptr;
  MetricSet metrics;
  std::map<uint32_t, Measured> ranges;  // by their name's id; launches share one
  Measured* open = nullptr;             // measured now
  bool refused = false;                 // said so, and not asked again
};

// Protects everything below and CUPTI's session. Held from the begin of a launch to its end, because a
// session belongs to the whole context: kernels that are measured run one at a time.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<MeasuredContext*>& contexts() {
  static auto* const value =
      new std::vector<MeasuredContext*>;  // never destroyed: callbacks outlive static destructors
  return *value;
}
uint32_t g_range = 0;                              // RangeMetric.range given last
thread_local MeasuredContext* t_launch = nullptr;  // whose launch this thread measures, under g_lock
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

bool clear(MeasuredContext* one, Measured* range) {
  if (range->data.empty()) {
    WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = one->object;
    size.pMetricNames = one->metrics.names();
    size.numMetrics = one->metrics.count();
    size.maxNumOfRanges = kRanges;
    size.maxNumRangeTreeNodes = kRanges;
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
  const bool per_range = settings().metrics_per_range;
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = one->object;
  config.configSize = one->metrics.image().size();
  config.pConfig = one->metrics.image().data();
  config.counterDataImageSize = range->data.size();
  config.pCounterDataImage = range->data.data();
  config.range = per_range ? CUPTI_UserRange : CUPTI_AutoRange;
  config.replayMode = per_range ? CUPTI_UserReplay : CUPTI_KernelReplay;
  config.maxRangesPerPass = kRanges;
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

void write_rows(MeasuredContext* one, const Measured& range, uint8_t kind, uint32_t name,
                uint32_t correlation) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = range.data.data();
  info.counterDataImageSize = range.data.size();
  if (cupti().cuptiRangeProfilerGetCounterDataInfo(&info) != CUPTI_SUCCESS) return;
  RangeMetric row = {};
  row.start = range.start;
  row.end = range.end;
  row.name = name;
  row.correlation = correlation;
  row.context = one->id;
  row.passes = static_cast<uint16_t>(one->metrics.passes());
  row.kind = kind;
  for (size_t index = 0; index < info.numTotalRanges; ++index) {
    const std::vector<double>& values = one->metrics.evaluate(range.data, index);
    if (!values.empty()) row.range = ++g_range;
    for (size_t i = 0; i < values.size(); ++i) {
      row.metric = one->metrics.name_id(i);
      row.value = values[i];
      write(row);
    }
  }
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

}  // namespace

bool launches_measured() { return wanted() && !settings().metrics_per_range; }
bool ranges_measured() { return wanted() && settings().metrics_per_range; }

void measured_launch_begins(CUcontext context, const char* kernel) {
  if (t_launch != nullptr) return;
  if (kernels_filtered() && kernel != nullptr && !kernel_wanted(intern_c(kernel), kernel)) return;
  relax_capture_mode();
  pthread_mutex_lock(&g_lock);
  MeasuredContext* one = measured(context);
  if (one != nullptr && !one->refused) {
    Measured* range = &one->ranges[0];
    if (clear(one, range) && start(one, range)) {
      t_launch = one;
      return;  // the lock is held until the launch ends
    }
  }
  pthread_mutex_unlock(&g_lock);
}

void measured_launch_ends(uint32_t name, uint32_t correlation) {
  MeasuredContext* one = t_launch;
  if (one == nullptr) return;
  t_launch = nullptr;
  Measured* range = one->open;
  if (stop(one)) write_rows(one, *range, kKernel, name, correlation);
  range->complete = true;
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
  if (!start(one, range)) return;
  const std::string text = std::to_string(name);
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
  push.pRangeProfilerObject = one->object;
  push.pRangeName = text.c_str();
  cupti().cuptiRangeProfilerPushRange(&push);
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
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
  pop.pRangeProfilerObject = one->object;
  cupti().cuptiRangeProfilerPopRange(&pop);
  Measured* range = one->open;
  if (!stop(one)) return;
  write_rows(one, *range, kRange, t_name, 0);
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
  for (MeasuredContext* one : contexts()) exiting ? report_incomplete(one) : finish(one);
  contexts().clear();
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
