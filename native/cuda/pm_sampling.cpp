#include "cuda/pm_sampling.h"

#include <cupti_pmsampling.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/functions.h"
#include "cuda/metric_set.h"
#include "runtime/runtime.h"
#include "runtime/timed_wait.h"

namespace warpsight {
namespace {

constexpr uint32_t kSamples = 1024;              // decoded at once; each takes some 10 KB
constexpr size_t kHardwareBuffer = 64ull << 20;  // for the samples of several windows
constexpr uint32_t kSourcePmSampling = 5;        // Counter.source
constexpr uint32_t kPatienceMs = 1000;           // that the end waits for a collection

struct SampledDevice {
  uint32_t device;
  CUpti_PmSampling_Object* object;
  MetricSet metrics;
  std::vector<uint8_t> data;
  bool said_full;
};

// Protects the list and CUPTI's objects in it; taken by the worker, at a context's start and at the end.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<SampledDevice*>& devices() {
  static auto* const value =
      new std::vector<SampledDevice*>;  // never destroyed: callbacks outlive static destructors
  return *value;
}
std::atomic<uint64_t> g_next{0};  // when the window is over, ns; 0 while nothing is sampled

bool refused(CUptiResult result, const char* step) {
  if (result == CUPTI_SUCCESS) return false;
  report_loss("metrics", "no metrics are sampled: " + counter_remedy(result) + " (" + step + ": " +
                             result_name(result) + ")");
  return true;
}

bool available() {
  const CuptiFunctions& c = cupti();
  return profiler() == Profiler::cupti && c.cuptiPmSamplingEnable != nullptr &&
         c.cuptiPmSamplingDisable != nullptr && c.cuptiPmSamplingSetConfig != nullptr &&
         c.cuptiPmSamplingStart != nullptr && c.cuptiPmSamplingStop != nullptr &&
         c.cuptiPmSamplingDecodeData != nullptr && c.cuptiPmSamplingGetCounterAvailability != nullptr &&
         c.cuptiPmSamplingGetCounterDataSize != nullptr &&
         c.cuptiPmSamplingCounterDataImageInitialize != nullptr &&
         c.cuptiPmSamplingGetCounterDataInfo != nullptr &&
         c.cuptiPmSamplingCounterDataGetSampleInfo != nullptr && c.cuptiGetDeviceId != nullptr;
}

bool availability(uint32_t device, std::vector<uint8_t>* image) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_GetCounterAvailability_Params, ask);
  ask.deviceIndex = device;
  if (refused(cupti().cuptiPmSamplingGetCounterAvailability(&ask), "counters")) return false;
  image->resize(ask.counterAvailabilityImageSize);
  ask.pCounterAvailabilityImage = image->data();
  return !refused(cupti().cuptiPmSamplingGetCounterAvailability(&ask), "counters");
}

bool clear(SampledDevice* one) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_CounterDataImage_Initialize_Params, image);
  image.pPmSamplingObject = one->object;
  image.counterDataSize = one->data.size();
  image.pCounterData = one->data.data();
  return cupti().cuptiPmSamplingCounterDataImageInitialize(&image) == CUPTI_SUCCESS;
}

bool configure(SampledDevice* one) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_SetConfig_Params, config);
  config.pPmSamplingObject = one->object;
  config.configSize = one->metrics.image().size();
  config.pConfig = one->metrics.image().data();
  config.hardwareBufferSize = kHardwareBuffer;
  config.samplingInterval = settings().pm_sampling_us * 1000ull;
  config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  config.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
  if (refused(cupti().cuptiPmSamplingSetConfig(&config), "configuration")) return false;
  WARPSIGHT_PARAMS(CUpti_PmSampling_GetCounterDataSize_Params, size);
  size.pPmSamplingObject = one->object;
  size.pMetricNames = one->metrics.names();
  size.numMetrics = one->metrics.count();
  size.maxSamples = kSamples;
  if (refused(cupti().cuptiPmSamplingGetCounterDataSize(&size), "size of data")) return false;
  one->data.resize(size.counterDataSize);
  return clear(one);
}

void disable(SampledDevice* one) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_Disable_Params, off);
  off.pPmSamplingObject = one->object;
  cupti().cuptiPmSamplingDisable(&off);
}

bool start(SampledDevice* one) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_Start_Params, begin);
  begin.pPmSamplingObject = one->object;
  return !refused(cupti().cuptiPmSamplingStart(&begin), "begin");
}

// CUPTI stamps samples with our clock if it asks us for timestamps, as it does for its records, and otherwise
// with CLOCK_REALTIME, to which the driver keeps the GPU's clock. Returns what to subtract for our time:
// samples are recent, so the nearer of the two clocks is theirs.
int64_t ahead_ns(uint64_t sampled) {
  timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const auto ours = static_cast<int64_t>(now_ns());
  const int64_t realtime = real.tv_sec * 1000000000ll + real.tv_nsec;
  const auto time = static_cast<int64_t>(sampled);
  return std::llabs(time - ours) <= std::llabs(time - realtime) ? 0 : realtime - ours;
}

void write_sample(SampledDevice* one, size_t index) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_CounterData_GetSampleInfo_Params, sample);
  sample.pPmSamplingObject = one->object;
  sample.pCounterDataImage = one->data.data();
  sample.counterDataImageSize = one->data.size();
  sample.sampleIndex = index;
  if (cupti().cuptiPmSamplingCounterDataGetSampleInfo(&sample) != CUPTI_SUCCESS) return;
  const std::vector<double>& values = one->metrics.evaluate(one->data, index);
  Counter row = {};
  row.time = sample.endTimestamp - static_cast<uint64_t>(ahead_ns(sample.endTimestamp));
  row.device = static_cast<int32_t>(one->device);
  row.source = kSourcePmSampling;
  for (size_t i = 0; i < values.size(); ++i) {
    row.value = values[i];
    row.name = one->metrics.name_id(i);
    row.unit = one->metrics.unit_id(i);
    write(row);
  }
}

// Writes one image of samples; false once the GPU has no more.
bool take(SampledDevice* one) {
  WARPSIGHT_PARAMS(CUpti_PmSampling_DecodeData_Params, decode);
  decode.pPmSamplingObject = one->object;
  decode.pCounterDataImage = one->data.data();
  decode.counterDataImageSize = one->data.size();
  const CUptiResult result = cupti().cuptiPmSamplingDecodeData(&decode);
  if ((decode.overflow != 0 || result == CUPTI_ERROR_OUT_OF_MEMORY) && !one->said_full) {
    one->said_full = true;
    report_loss(
        "metrics",
        "the GPU's buffer for samples of metrics ran full: sample less often with --metrics-every US");
  }
  WARPSIGHT_PARAMS(CUpti_PmSampling_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = one->data.data();
  info.counterDataImageSize = one->data.size();
  if (result != CUPTI_SUCCESS || cupti().cuptiPmSamplingGetCounterDataInfo(&info) != CUPTI_SUCCESS)
    return false;
  const bool wanted = !settings().capture_range || recording();
  for (size_t i = 0; wanted && i < info.numCompletedSamples; ++i) write_sample(one, i);
  return clear(one) && decode.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
}

void schedule() { g_next.store(now_ns() + settings().flush_ms * 1000000ull, std::memory_order_relaxed); }

SampledDevice* sampled_device(uint32_t device) {
  std::vector<uint8_t> free_counters;
  if (!availability(device, &free_counters)) return nullptr;
  auto* one = new SampledDevice{device, nullptr, {}, {}, false};
  std::string problem = one->metrics.prepare(CUPTI_PROFILER_TYPE_PM_SAMPLING, device, free_counters);
  if (problem.empty() && one->metrics.passes() > 1)
    problem = "they need " + std::to_string(one->metrics.passes()) +
              " passes and sampling has one: ask for fewer at a time";
  WARPSIGHT_PARAMS(CUpti_PmSampling_Enable_Params, on);
  on.deviceIndex = device;
  if (!problem.empty()) {
    report_loss("metrics", "no metrics are sampled: " + problem);
  } else if (!refused(cupti().cuptiPmSamplingEnable(&on), "device")) {
    one->object = on.pPmSamplingObject;
    if (configure(one) && start(one)) return one;
    disable(one);
  }
  delete one;
  return nullptr;
}

}  // namespace

bool devices_sampled() { return settings().pm_sampling_us != 0 && !settings().metrics.empty(); }

void sample_device_of(CUcontext context) {
  static std::atomic<bool> refused{false};  // the loss is reported, and it is not tried again
  if (refused.load(std::memory_order_relaxed)) return;
  uint32_t device = 0;
  if (!available() || !profiler_initialized() ||
      cupti().cuptiGetDeviceId(context, &device) != CUPTI_SUCCESS) {
    report_loss("metrics", "no metrics are sampled: this CUPTI has no PM sampling; CUDA 12.6 brought it");
    refused.store(true, std::memory_order_relaxed);
    return;
  }
  pthread_mutex_lock(&g_lock);
  const bool known =
      std::any_of(devices().begin(), devices().end(), [&](auto* one) { return one->device == device; });
  SampledDevice* one = known ? nullptr : sampled_device(device);
  if (one != nullptr) devices().push_back(one), schedule();
  if (!known && one == nullptr) refused.store(true, std::memory_order_relaxed);
  pthread_mutex_unlock(&g_lock);
}

void collect_device_samples() {
  const uint64_t due = g_next.load(std::memory_order_relaxed);
  if (due == 0 || now_ns() < due) return;
  pthread_mutex_lock(&g_lock);
  for (SampledDevice* one : devices()) {
    while (take(one)) {
    }
  }
  if (!devices().empty()) schedule();
  pthread_mutex_unlock(&g_lock);
}

uint32_t device_window_ms(uint32_t idle_ms) {
  return g_next.load(std::memory_order_relaxed) == 0 ? idle_ms
                                                     : std::min<uint32_t>(idle_ms, settings().flush_ms);
}

void end_device_sampling(bool exiting) {
  if (!devices_sampled()) return;
  if (!lock_within(&g_lock, kPatienceMs)) return;
  g_next.store(0, std::memory_order_relaxed);
  for (SampledDevice* one : devices()) {
    WARPSIGHT_PARAMS(CUpti_PmSampling_Stop_Params, stop);
    stop.pPmSamplingObject = one->object;
    cupti().cuptiPmSamplingStop(&stop);
    while (take(one)) {
    }
    if (exiting) continue;
    disable(one);
    delete one;
  }
  devices().clear();
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
