#include "cuda/metric_set.h"

#include <cstring>

#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

bool has_host() {
  const CuptiFunctions& c = cupti();
  return c.cuptiProfilerHostInitialize != nullptr && c.cuptiProfilerHostDeinitialize != nullptr &&
         c.cuptiProfilerHostConfigAddMetrics != nullptr && c.cuptiProfilerHostGetConfigImageSize != nullptr &&
         c.cuptiProfilerHostGetConfigImage != nullptr && c.cuptiProfilerHostGetNumOfPasses != nullptr &&
         c.cuptiProfilerHostEvaluateToGpuValues != nullptr && c.cuptiDeviceGetChipName != nullptr;
}

CUpti_Profiler_Host_Object* new_host(CUpti_ProfilerType type, const char* chip, const uint8_t* availability) {
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_Initialize_Params, host);
  host.profilerType = type;
  host.pChipName = chip;
  host.pCounterAvailabilityImage = availability;
  return cupti().cuptiProfilerHostInitialize(&host) == CUPTI_SUCCESS ? host.pHostObject : nullptr;
}

void free_host(CUpti_Profiler_Host_Object* object) {
  if (object == nullptr) return;
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, host);
  host.pHostObject = object;
  cupti().cuptiProfilerHostDeinitialize(&host);
}

CUptiResult add(CUpti_Profiler_Host_Object* object, const char** names, size_t count) {
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, metrics);
  metrics.pHostObject = object;
  metrics.ppMetricNames = names;
  metrics.numMetrics = count;
  return cupti().cuptiProfilerHostConfigAddMetrics(&metrics);
}

bool config_image(CUpti_Profiler_Host_Object* object, std::vector<uint8_t>* image, size_t* passes) {
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = object;
  if (cupti().cuptiProfilerHostGetConfigImageSize(&size) != CUPTI_SUCCESS) return false;
  image->resize(size.configImageSize);
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, get);
  get.pHostObject = object;
  get.configImageSize = image->size();
  get.pConfigImage = image->data();
  if (cupti().cuptiProfilerHostGetConfigImage(&get) != CUPTI_SUCCESS) return false;
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, number);
  number.configImageSize = image->size();
  number.pConfigImage = image->data();
  if (cupti().cuptiProfilerHostGetNumOfPasses(&number) != CUPTI_SUCCESS) return false;
  *passes = number.numOfPasses;
  return true;
}

}  // namespace

std::string counter_remedy(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "the driver lets administrators alone read the GPU's counters (ERR_NVGPUCTRPERM): run as root, "
             "or load the driver with NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another profiler has the GPU's counters (Nsight, ncu, DCGM: dcgmi profile --pause)";
    case CUPTI_ERROR_NOT_SUPPORTED:
    case CUPTI_ERROR_INVALID_DEVICE:
      return "this GPU or driver does not offer it; it begins with compute capability 7.0";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the hypervisor does not let this virtual GPU be profiled";
    default:
      return "CUPTI refused";
  }
}

const char* chip_of_device(uint32_t device) {
  if (cupti().cuptiDeviceGetChipName == nullptr) return nullptr;
  WARPSIGHT_PARAMS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = device;
  return cupti().cuptiDeviceGetChipName(&chip) == CUPTI_SUCCESS ? chip.pChipName : nullptr;
}

bool profiler_initialized() {
  static const bool ready = [] {
    if (cupti().cuptiProfilerInitialize == nullptr) return false;
    WARPSIGHT_PARAMS(CUpti_Profiler_Initialize_Params, begin);
    return cupti().cuptiProfilerInitialize(&begin) == CUPTI_SUCCESS;
  }();
  return ready;
}

MetricSet::~MetricSet() { free_host(host_); }

std::string MetricSet::refused(const char* chip, CUpti_ProfilerType type, const uint8_t* availability) const {
  std::string unknown;
  for (const char* name : names_) {
    CUpti_Profiler_Host_Object* alone = new_host(type, chip, availability);
    const char* one[] = {name};
    if (alone != nullptr && add(alone, one, 1) != CUPTI_SUCCESS)
      unknown += (unknown.empty() ? "" : ", ") + std::string(name);
    free_host(alone);
  }
  if (unknown.empty()) return "these metrics cannot be measured together";
  return std::string(chip) + " has no metric " + unknown +
         "; names end in a suffix such as .sum (warpsight sass metrics --list)";
}

std::string MetricSet::prepare(CUpti_ProfilerType type, uint32_t device,
                               const std::vector<uint8_t>& availability) {
  if (!has_host() || !profiler_initialized())
    return "this CUPTI has no metrics by name; CUDA 12.6 brought them";
  const char* chip = chip_of_device(device);
  if (chip == nullptr) return "CUPTI does not know this GPU";
  for (const std::string& name : settings().metrics) {
    names_.push_back(name.c_str());
    ids_.push_back(intern(name));
  }
  values_.resize(names_.size());
  const uint8_t* available = availability.empty() ? nullptr : availability.data();
  host_ = new_host(type, chip, available);
  if (host_ == nullptr) return std::string("CUPTI cannot describe the counters of ") + chip;
  if (add(host_, names_.data(), names_.size()) != CUPTI_SUCCESS) return refused(chip, type, available);
  if (!config_image(host_, &image_, &passes_)) return "these metrics cannot be measured together";
  find_units();
  return "";
}

// The unit of a metric, if it has one; for percent and ratios, the suffix is clearer.
void MetricSet::find_units() {
  for (const char* name : names_) {
    const char* unit = "1";
    WARPSIGHT_PARAMS(CUpti_Profiler_Host_GetMetricProperties_Params, metric);
    metric.pHostObject = host_;
    metric.pMetricName = name;
    if (strstr(name, ".pct") != nullptr || strstr(name, "_pct") != nullptr)
      unit = "%";
    else if (cupti().cuptiProfilerHostGetMetricProperties != nullptr &&
             cupti().cuptiProfilerHostGetMetricProperties(&metric) == CUPTI_SUCCESS &&
             metric.pDimUnit != nullptr && *metric.pDimUnit != '\0')
      unit = metric.pDimUnit;
    units_.push_back(intern_c(unit));
  }
}

const std::vector<double>& MetricSet::evaluate(const std::vector<uint8_t>& counter_data, size_t index) {
  static const auto& none = *new std::vector<double>;  // never destroyed: threads outlive destructors
  WARPSIGHT_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, values);
  values.pHostObject = host_;
  values.pCounterDataImage = counter_data.data();
  values.counterDataImageSize = counter_data.size();
  values.rangeIndex = index;
  values.ppMetricNames = names_.data();
  values.numMetrics = names_.size();
  values.pMetricValues = values_.data();
  return cupti().cuptiProfilerHostEvaluateToGpuValues(&values) == CUPTI_SUCCESS ? values_ : none;
}

}  // namespace warpsight
