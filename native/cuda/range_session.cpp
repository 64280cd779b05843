#include "cuda/range_session.h"

#include <cstdlib>

#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

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

bool availability(CUcontext context, std::vector<uint8_t>* image) {
  WARPSIGHT_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, ask);
  ask.ctx = context;
  if (cupti().cuptiProfilerGetCounterAvailability(&ask) != CUPTI_SUCCESS) return false;
  image->resize(ask.counterAvailabilityImageSize);
  ask.pCounterAvailabilityImage = image->data();
  return cupti().cuptiProfilerGetCounterAvailability(&ask) == CUPTI_SUCCESS;
}

std::string problem(CUptiResult result, const char* step) {
  if (result == CUPTI_SUCCESS) return "";
  return counter_remedy(result) + " (" + step + ": " + result_name(result) + ")";
}

}  // namespace

std::string RangeSession::enable(CUcontext context) {
  uint32_t device = 0;
  if (!available() || !profiler_initialized() || cupti().cuptiGetDeviceId(context, &device) != CUPTI_SUCCESS)
    return "this CUPTI has no Range Profiler; CUDA 12.6 brought it";
  std::vector<uint8_t> free_counters;
  if (!availability(context, &free_counters)) free_counters.clear();
  const std::string unfit = metrics.prepare(CUPTI_PROFILER_TYPE_RANGE_PROFILER, device, free_counters);
  if (!unfit.empty()) return unfit;
  if (settings().metrics_passes.empty() && several_passes())
    return "they need " + std::to_string(metrics.passes()) +
           " passes and a run of the program takes one: ask for fewer at a time, or run it as often with "
           "--metrics-passes FOLDER, as `warpsight sass metrics` does";
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Enable_Params, on);
  on.ctx = context;
  const CUptiResult result = cupti().cuptiRangeProfilerEnable(&on);
  object_ = result == CUPTI_SUCCESS ? on.pRangeProfilerObject : nullptr;
  return problem(result, "begin");
}

void RangeSession::disable() {
  if (object_ == nullptr) return;
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Disable_Params, off);
  off.pRangeProfilerObject = object_;
  cupti().cuptiRangeProfilerDisable(&off);
  object_ = nullptr;
}

std::string RangeSession::allocate() {
  if (!data_.empty()) return "";
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = object_;
  size.pMetricNames = metrics.names();
  size.numMetrics = metrics.count();
  size.maxNumOfRanges = kRanges;
  size.maxNumRangeTreeNodes = kRanges;
  const CUptiResult result = cupti().cuptiRangeProfilerGetCounterDataSize(&size);
  if (result == CUPTI_SUCCESS) data_.resize(size.counterDataSize);
  return problem(result, "size of data");
}

std::string RangeSession::set_up_data(uint32_t context, uint64_t session, PassState* passes) {
  const std::string failed = allocate();
  if (!failed.empty()) return failed;
  *passes = {};
  if (several_passes() && load_passes(context, session, passes, &data_)) return "";
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
  image.pRangeProfilerObject = object_;
  image.counterDataSize = data_.size();
  image.pCounterData = data_.data();
  return problem(cupti().cuptiRangeProfilerCounterDataImageInitialize(&image), "data");
}

std::string RangeSession::begin(const PassState& passes) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = object_;
  config.configSize = metrics.image().size();
  config.pConfig = metrics.image().data();
  config.counterDataImageSize = data_.size();
  config.pCounterDataImage = data_.data();
  config.range = CUPTI_UserRange;
  config.replayMode = several_passes() ? CUPTI_ApplicationReplay : CUPTI_UserReplay;
  config.maxRangesPerPass = kRanges;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.passIndex = passes.pass;
  config.targetNestingLevel = static_cast<uint16_t>(passes.level);
  const CUptiResult result = cupti().cuptiRangeProfilerSetConfig(&config);
  if (result != CUPTI_SUCCESS) return problem(result, "configuration");
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Start_Params, start);
  start.pRangeProfilerObject = object_;
  return problem(cupti().cuptiRangeProfilerStart(&start), "start");
}

std::string RangeSession::push(size_t number) {
  const std::string text = std::to_string(number);
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
  push.pRangeProfilerObject = object_;
  push.pRangeName = text.c_str();
  return problem(cupti().cuptiRangeProfilerPushRange(&push), "begin of a range");
}

std::string RangeSession::pop() {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
  pop.pRangeProfilerObject = object_;
  return problem(cupti().cuptiRangeProfilerPopRange(&pop), "end of a range");
}

std::string RangeSession::end(PassState* next, bool* complete) {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_Stop_Params, stop);
  stop.pRangeProfilerObject = object_;
  const CUptiResult result = cupti().cuptiRangeProfilerStop(&stop);
  if (result != CUPTI_SUCCESS) return problem(result, "stop");
  *next = {stop.passIndex, stop.targetNestingLevel, 0};
  *complete = !several_passes() || stop.isAllPassSubmitted != 0;
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
  decode.pRangeProfilerObject = object_;
  return problem(cupti().cuptiRangeProfilerDecodeData(&decode), "decode");
}

// The number that push() gave a range as its name.
size_t RangeSession::range_name(size_t index) const {
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params, info);
  info.pCounterDataImage = data_.data();
  info.counterDataImageSize = data_.size();
  info.rangeIndex = index;
  info.rangeDelimiter = "/";
  const CUptiResult result = cupti().cuptiRangeProfilerCounterDataGetRangeInfo(&info);
  const bool named = result == CUPTI_SUCCESS && info.rangeName != nullptr;
  return named ? strtoull(info.rangeName, nullptr, 10) : SIZE_MAX;
}

std::vector<size_t> RangeSession::indices(size_t count) const {
  std::vector<size_t> found(count, SIZE_MAX);
  WARPSIGHT_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = data_.data();
  info.counterDataImageSize = data_.size();
  if (cupti().cuptiRangeProfilerGetCounterDataInfo(&info) != CUPTI_SUCCESS) return found;
  for (size_t index = 0; index < info.numTotalRanges; ++index) {
    const size_t number = range_name(index);
    if (number < count) found[number] = index;
  }
  return found;
}

}  // namespace warpsight
