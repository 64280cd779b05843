// PC sampling: every launched kernel leaves the same samples, which cuptiPCSamplingGetData hands over.
#include <cupti_pcsampling.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "standin.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace standin {
namespace {

constexpr const char* kReasons[] = {
    "smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_long_scoreboard",
    "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
    "smsp__pcsamp_warps_issue_stalled_selected", "smsp__pcsamp_warps_issue_stalled_selected_not_issued"};
constexpr size_t kReasonCount = sizeof kReasons / sizeof kReasons[0];

// Of each launch: at 0x10 three samples wait for a load, two while nothing issued; at 0x20 one issues.
struct Script {
  uint64_t pc;
  uint32_t counts[kReasonCount];
};
constexpr Script kScript[] = {{0x10, {3, 3, 2, 0, 0}}, {0x20, {1, 0, 0, 1, 0}}};
constexpr uint64_t kSamplesOfLaunch = 4;

std::mutex g_lock;  // protects everything below
CUpti_ComputeCrcCallbackFunc g_checksum = nullptr;
std::map<std::string, uint64_t> g_images;    // kernel → checksum of its image
std::map<std::string, uint64_t> g_launches;  // not handed over yet
bool g_enabled = false, g_told = false;
std::atomic<bool> g_taken_down{false};
CUpti_PCSamplingData* g_rest = nullptr;

void hand_over(CUpti_PCSamplingData* data) {
  data->totalNumPcs = data->remainingNumPcs = 0;
  data->totalSamples = data->droppedSamples = data->nonUsrKernelsTotalSamples = 0;
  for (auto& [name, launches] : g_launches) {
    for (const Script& line : kScript) {
      if (data->totalNumPcs == data->collectNumPcs) violation("a buffer for samples that is too small");
      CUpti_PCSamplingPCData& pc = data->pPcData[data->totalNumPcs++];
      pc.cubinCrc = g_images[name];
      pc.pcOffset = line.pc;
      pc.functionName = strdup(name.c_str());
      pc.stallReasonCount = kReasonCount;
      for (uint32_t i = 0; i < kReasonCount; ++i)
        pc.stallReason[i] = {i, static_cast<uint32_t>(line.counts[i] * launches)};
    }
    data->totalSamples += kSamplesOfLaunch * launches;
  }
  if (!g_told && !g_launches.empty()) {
    g_told = true;
    data->droppedSamples = static_cast<uint64_t>(option("pc_drop", 0));
    data->nonUsrKernelsTotalSamples = static_cast<uint64_t>(option("pc_foreign", 0));
    data->totalSamples += data->droppedSamples + data->nonUsrKernelsTotalSamples;
    data->hardwareBufferFull = option("pc_full", 0) != 0;
  }
  g_launches.clear();
}

// exit() takes the libraries down that sampling has loaded, before those that were there already.
void take_down() {
  g_taken_down = true;
  usleep(static_cast<useconds_t>(option("slow_exit_ms", 0)) * 1000);
}

void must_be_there() {
  if (g_taken_down) violation("PC sampling is used after exit() has taken it down");
}

void must_be_enabled() {
  must_be_there();
  if (!g_enabled) violation("PC sampling is used in a context where it is not enabled");
}

}  // namespace

void sample_launch(const char* kernel) {
  const std::lock_guard<std::mutex> guard(g_lock);
  if (g_enabled && kernel != nullptr) ++g_launches[kernel];
}

void checksum_image(const void* image, size_t size, const char* const* kernels, size_t count) {
  const std::lock_guard<std::mutex> guard(g_lock);
  uint64_t checksum = 1;
  if (g_checksum != nullptr) g_checksum(image, size, &checksum);
  for (size_t i = 0; i < count; ++i) g_images[kernels[i]] = checksum;
}

uint64_t checksum_of(const char* kernel) {
  const std::lock_guard<std::mutex> guard(g_lock);
  return g_images[kernel];
}

}  // namespace standin

using namespace standin;  // NOLINT

EXPORT CUptiResult cuptiRegisterComputeCrcCallback(CUpti_ComputeCrcCallbackFunc callback) {
  const std::lock_guard<std::mutex> guard(g_lock);
  return g_checksum = callback, CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams*) {
  const std::lock_guard<std::mutex> guard(g_lock);
  const auto refusal = static_cast<CUptiResult>(option("pc_refuse", CUPTI_SUCCESS));
  if (refusal != CUPTI_SUCCESS) return refusal;
  static const int registered = atexit(take_down);
  (void)registered;
  return g_enabled = true, CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams* params) {
  must_be_enabled();
  return *params->numStallReasons = kReasonCount, CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams* params) {
  must_be_enabled();
  for (uint32_t i = 0; i < kReasonCount; ++i) {
    params->stallReasonIndex[i] = i;
    strcpy(params->stallReasons[i], kReasons[i]);
  }
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams* params) {
  must_be_enabled();
  for (size_t i = 0; i < params->numAttributes; ++i) {
    const CUpti_PCSamplingConfigurationInfo& info = params->pPCSamplingConfigurationInfo[i];
    if (info.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER)
      g_rest =
          static_cast<CUpti_PCSamplingData*>(info.attributeData.samplingDataBufferData.samplingDataBuffer);
    if (info.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL)
      violation("start and stop can deadlock with launches of other threads");
  }
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams* params) {
  must_be_there();
  if (option("pc_breaks", 0) != 0) {
    break_down();
    g_taken_down = true;
    return CUPTI_ERROR_UNKNOWN;
  }
  const std::lock_guard<std::mutex> guard(g_lock);
  if (!g_enabled) return CUPTI_ERROR_INVALID_OPERATION;
  if (option("pc_late", 0) == 0) hand_over(static_cast<CUpti_PCSamplingData*>(params->pcSamplingData));
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams*) {
  const std::lock_guard<std::mutex> guard(g_lock);
  must_be_enabled();
  if (g_rest != nullptr) hand_over(g_rest);
  return g_enabled = false, CUPTI_SUCCESS;
}
