#include "cuda/sass_counts.h"

#include <cupti_sass_metrics.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/functions.h"
#include "cuda/metric_set.h"
#include "cuda/modules.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

// What `on` counts: executions and threads, and the cost of memory accesses and branches. Each metric adds
// code before the instructions that it counts.
constexpr const char* kUsual[] = {
    "smsp__sass_inst_executed",
    "smsp__sass_thread_inst_executed",
    "smsp__sass_thread_inst_executed_pred_on",
    "smsp__sass_branch_targets_threads_divergent",
    "smsp__sass_sectors_mem_global",
    "smsp__sass_sectors_mem_global_ideal",
    "smsp__sass_sectors_mem_local",
    "smsp__sass_l1tex_tags_mem_global",
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared",
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal",
};

struct CountedContext {
  CUcontext context;
  uint32_t id, device;
  uint64_t start;
  bool enabled;
  std::unordered_map<uint64_t, uint32_t> metrics;  // CUPTI's id → string id
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the list and CUPTI's counting
std::atomic<bool> g_ended{false};  // counts are taken: set and read by the recorder's thread and in callbacks
std::vector<CountedContext*>& contexts() {
  static auto* const value =
      new std::vector<CountedContext*>;  // never destroyed: callbacks outlive static destructors
  return *value;
}

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

// CUPTI keeps 32 bits of an image's checksum: the images by these.
std::map<uint32_t, uint64_t>& images() {
  static auto* const value = new std::map<uint32_t, uint64_t>;
  return *value;
}
pthread_mutex_t g_images_lock =
    PTHREAD_MUTEX_INITIALIZER;  // protects images(): CUPTI asks for checksums on any thread

void CUPTIAPI checksum(const void* image, size_t size, uint64_t* result) {
  *result = image_checksum(image, size);
  pthread_mutex_lock(&g_images_lock);
  images()[static_cast<uint32_t>(*result)] = *result;
  pthread_mutex_unlock(&g_images_lock);
}

uint64_t image_of(uint32_t low) {
  pthread_mutex_lock(&g_images_lock);
  const auto found = images().find(low);
  const uint64_t whole = found == images().end() ? 0 : found->second;
  pthread_mutex_unlock(&g_images_lock);
  return whole;
}

bool available() {
  const CuptiFunctions& c = cupti();
  return profiler() == Profiler::cupti && c.cuptiSassMetricsEnable != nullptr &&
         c.cuptiSassMetricsDisable != nullptr && c.cuptiSassMetricsSetConfig != nullptr &&
         c.cuptiSassMetricsUnsetConfig != nullptr && c.cuptiSassMetricsGetNumOfMetrics != nullptr &&
         c.cuptiSassMetricsGetMetrics != nullptr && c.cuptiSassMetricsGetDataProperties != nullptr &&
         c.cuptiSassMetricsFlushData != nullptr && c.cuptiRegisterComputeCrcCallback != nullptr &&
         c.cuptiGetDeviceId != nullptr;
}

void refuse(const std::string& why) { report_loss("sass counts", "no instructions are counted: " + why); }

bool refused(CUptiResult result, const char* step) {
  if (result == CUPTI_SUCCESS) return false;
  refuse(counter_remedy(result) + " (" + step + ": " + result_name(result) + ")");
  return true;
}

bool asked_for(const std::string& wanted, const char* name) {
  if (wanted == "all") return true;
  if (wanted == "on")
    return std::any_of(std::begin(kUsual), std::end(kUsual),
                       [&](const char* one) { return strcmp(one, name) == 0; });
  return ("," + wanted + ",").find("," + std::string(name) + ",") != std::string::npos;
}

// The requested metrics that the chip has.
std::vector<CUpti_SassMetrics_Config> chosen(const char* chip, CountedContext* one) {
  std::vector<CUpti_SassMetrics_Config> found;
  WARPSIGHT_PARAMS(CUpti_SassMetrics_GetNumOfMetrics_Params, number);
  number.pChipName = chip;
  if (cupti().cuptiSassMetricsGetNumOfMetrics(&number) != CUPTI_SUCCESS) return found;
  std::vector<CUpti_SassMetrics_MetricDetails> details(number.numOfMetrics);
  WARPSIGHT_PARAMS(CUpti_SassMetrics_GetMetrics_Params, list);
  list.pChipName = chip;
  list.numOfMetrics = details.size();
  list.pMetricsList = details.data();
  if (cupti().cuptiSassMetricsGetMetrics(&list) != CUPTI_SUCCESS) return found;
  for (const auto& metric : details) {
    if (!asked_for(settings().sass_counts, metric.pMetricName)) continue;
    found.push_back({metric.metricId, CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU});
    one->metrics[metric.metricId] = intern_c(metric.pMetricName);
  }
  return found;
}

// A device has one configuration, whatever contexts are created and destroyed.
bool configured(uint32_t device, const std::vector<CUpti_SassMetrics_Config>& metrics) {
  if (std::any_of(contexts().begin(), contexts().end(),
                  [&](auto* one) { return one->enabled && one->device == device; }))
    return true;
  std::vector<CUpti_SassMetrics_Config> list = metrics;
  WARPSIGHT_PARAMS(CUpti_SassMetricsSetConfig_Params, config);
  config.numOfMetricConfig = list.size();
  config.pConfigs = list.data();
  config.deviceIndex = device;
  return !refused(cupti().cuptiSassMetricsSetConfig(&config), "configuration");
}

bool enable(CountedContext* one) {
  if (!available() || !profiler_initialized() ||
      cupti().cuptiGetDeviceId(one->context, &one->device) != CUPTI_SUCCESS)
    return refuse("this CUPTI has no SASS metrics"), false;
  const char* chip = chip_of_device(one->device);
  const std::vector<CUpti_SassMetrics_Config> metrics =
      chip != nullptr ? chosen(chip, one) : std::vector<CUpti_SassMetrics_Config>();
  if (metrics.empty())
    return refuse(std::string(chip != nullptr ? chip : "this GPU") + " has no SASS metric " +
                  settings().sass_counts + " (warpsight sass metrics --list)"),
           false;
  if (!configured(one->device, metrics)) return false;
  WARPSIGHT_PARAMS(CUpti_SassMetricsEnable_Params, on);
  on.ctx = one->context;
  on.enableLazyPatching = 1;
  return !refused(cupti().cuptiSassMetricsEnable(&on), "begin");
}

void write_instruction(const CountedContext& one, const CUpti_SassMetrics_Data& data, size_t values,
                       InstructionCount row) {
  row.checksum = image_of(data.cubinCrc);
  row.pc = data.pcOffset;
  row.name = data.functionName != nullptr ? intern_c(data.functionName) : 0;
  for (size_t i = 0; i < values; ++i) {
    const auto metric = one.metrics.find(data.pInstanceValues[i].metricId);
    if (metric == one.metrics.end() || data.pInstanceValues[i].value == 0) continue;
    row.metric = metric->second;
    row.value = data.pInstanceValues[i].value;
    write(row, OnFull::wait);
  }
}

// Writes everything counted in a context since the last time.
void take(CountedContext* one) {
  WARPSIGHT_PARAMS(CUpti_SassMetricsGetDataProperties_Params, size);
  size.ctx = one->context;
  if (cupti().cuptiSassMetricsGetDataProperties(&size) != CUPTI_SUCCESS ||
      size.numOfPatchedInstructionRecords == 0)
    return;
  const size_t records = size.numOfPatchedInstructionRecords, values = size.numOfInstances;
  std::vector<CUpti_SassMetrics_Data> data(records);
  std::vector<CUpti_SassMetrics_InstanceValue> space(records * values);
  for (size_t i = 0; i < records; ++i) {
    data[i].structSize = sizeof data[i];
    data[i].pInstanceValues = &space[i * values];
  }
  WARPSIGHT_PARAMS(CUpti_SassMetricsFlushData_Params, flush);
  flush.ctx = one->context;
  flush.numOfPatchedInstructionRecords = records;
  flush.numOfInstances = values;
  flush.pMetricsData = data.data();
  if (refused(cupti().cuptiSassMetricsFlushData(&flush), "counts")) return;
  InstructionCount row = {};
  row.start = one->start;
  row.end = now_ns();
  row.context = one->id;
  for (const auto& instruction : data) write_instruction(*one, instruction, values, row);
}

// Under g_lock.
void finish(CountedContext* one) {
  if (one->enabled) {
    take(one);
    WARPSIGHT_PARAMS(CUpti_SassMetricsDisable_Params, off);
    off.ctx = one->context;
    cupti().cuptiSassMetricsDisable(&off);
    if (off.numOfDroppedRecords != 0)
      report_loss("sass counts", "CUPTI dropped counts of instructions", off.numOfDroppedRecords,
                  Severity::lost, one->start, now_ns(), InstructionCount::kKind);
    one->enabled = false;
    if (std::none_of(contexts().begin(), contexts().end(),
                     [&](auto* other) { return other->enabled && other->device == one->device; })) {
      WARPSIGHT_PARAMS(CUpti_SassMetricsUnsetConfig_Params, config);
      config.deviceIndex = one->device;
      cupti().cuptiSassMetricsUnsetConfig(&config);
    }
  }
  delete one;
}

}  // namespace

bool instructions_counted() { return settings().sass_counts != "off" && !settings().sass_counts.empty(); }

bool launches_patch_kernels() { return instructions_counted() && !g_ended.load(std::memory_order_relaxed); }

void begin_sass_counts(bool contexts_exist) {
  if (!instructions_counted()) return;
  g_ended.store(false, std::memory_order_relaxed);
  if (available()) cupti().cuptiRegisterComputeCrcCallback(checksum);
  if (contexts_exist)
    refuse("contexts are older than the recording; start the program under `warpsight sass counts`");
}

void count_from_launch(CUcontext context) {
  const Guard guard;
  for (const CountedContext* one : contexts()) {
    if (one->context == context) return;
  }
  auto* one = new CountedContext{context, context_id(context), 0, now_ns(), false, {}};
  one->enabled = enable(one);
  contexts().push_back(one);
}

void end_counts_of(CUcontext context) {
  if (!instructions_counted()) return;
  const Guard guard;
  std::vector<CountedContext*> ending, left;
  for (CountedContext* one : contexts()) (one->context == context ? ending : left).push_back(one);
  for (CountedContext* one : ending) finish(one);
  contexts().swap(left);
}

void end_sass_counts(bool exiting) {
  if (!instructions_counted()) return;
  const Guard guard;
  for (CountedContext* one : contexts()) {
    if (!exiting)
      finish(one);
    else if (one->enabled)
      take(one);
  }
  contexts().clear();
  g_ended.store(true, std::memory_order_relaxed);
}

}  // namespace warpsight
