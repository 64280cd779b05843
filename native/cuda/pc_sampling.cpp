#include "cuda/pc_sampling.h"

#include <cupti_pcsampling.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/functions.h"
#include "cuda/machine.h"
#include "cuda/metric_set.h"
#include "cuda/modules.h"
#include "cuda/sampled_gpus.h"
#include "runtime/runtime.h"
#include "runtime/timed_wait.h"

namespace warpsight {
namespace {

constexpr size_t kPcs = 16384;            // instructions taken from CUPTI at once
constexpr size_t kMostReasons = 64;       // sm_90 has 40, counts of samples and drops included
constexpr uint64_t kBytesPerSample = 32;  // of the hardware's buffer, for all that can come in a second
constexpr uint64_t kLeastBuffer = 16ull << 20, kMostBuffer = 512ull << 20;
constexpr uint32_t kLeastPeriod = 5, kMostPeriod = 31;  // CUPTI's bounds of log2 of the period in cycles
constexpr uint64_t kCostShare = 100;    // a window is at least this many times as long as its collection took
constexpr uint32_t kPatienceMs = 1000;  // that the end of a context waits for a collection
constexpr std::string_view kPrefix = "smsp__pcsamp_warps_issue_stalled_";
constexpr std::string_view kTwin = "_not_issued";

// A stall reason: CUPTI counts it under two indices, the second only where the scheduler issued nothing.
struct Reason {
  uint32_t name, all, not_issued;
};

struct Sampled {
  CUcontext context;
  uint32_t id;
  uint32_t device;
  uint32_t cycles;        // between two samples of a multiprocessor
  uint64_t window_start;  // CLOCK_MONOTONIC ns
  std::vector<Reason> reasons;
  CUpti_PCSamplingData* rest;  // CUPTI writes here when sampling ends
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the list; CUPTI is never called under it
std::vector<Sampled*>& sampled() {
  static auto* const value =
      new std::vector<Sampled*>;  // never destroyed: callbacks outlive static destructors
  return *value;
}
// Protects contexts against ending while the worker collects; taken by the worker and at the end of a
// context.
pthread_mutex_t g_collecting = PTHREAD_MUTEX_INITIALIZER;
CUpti_PCSamplingData* g_buffer = nullptr;  // used under g_collecting
std::atomic<uint64_t> g_next{0};           // when the window is over, ns; 0 while nothing is sampled
std::atomic<bool> g_broken{false};         // CUPTI failed to deliver samples, and may have finalized itself

struct Guard {
  explicit Guard(pthread_mutex_t* lock) : lock_(lock) { pthread_mutex_lock(lock_); }
  ~Guard() { pthread_mutex_unlock(lock_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  pthread_mutex_t* lock_;
};

// Memory for the rows of kPcs instructions, all zero; untouched pages cost nothing.
CUpti_PCSamplingData* new_buffer() {
  auto* data = static_cast<CUpti_PCSamplingData*>(calloc(1, sizeof(CUpti_PCSamplingData)));
  auto* pcs = static_cast<CUpti_PCSamplingPCData*>(calloc(kPcs, sizeof(CUpti_PCSamplingPCData)));
  auto* reasons = static_cast<CUpti_PCSamplingStallReason*>(
      calloc(kPcs * kMostReasons, sizeof(CUpti_PCSamplingStallReason)));
  if (data == nullptr || pcs == nullptr || reasons == nullptr) {
    free(data), free(pcs), free(reasons);
    return nullptr;
  }
  data->size = sizeof *data;
  data->collectNumPcs = kPcs;
  data->pPcData = pcs;
  for (size_t i = 0; i < kPcs; ++i) {
    pcs[i].size = sizeof *pcs;
    pcs[i].stallReason = reasons + i * kMostReasons;
  }
  return data;
}

void free_buffer(CUpti_PCSamplingData* data) {
  free(data->pPcData[0].stallReason);
  free(data->pPcData);
  free(data);
}

// Whether this library has every function; MCPTI's are not used, because their arguments are undocumented.
bool available() {
  const CuptiFunctions& c = cupti();
  return profiler() == Profiler::cupti && c.cuptiPCSamplingEnable != nullptr &&
         c.cuptiPCSamplingDisable != nullptr && c.cuptiPCSamplingGetData != nullptr &&
         c.cuptiPCSamplingGetNumStallReasons != nullptr && c.cuptiPCSamplingGetStallReasons != nullptr &&
         c.cuptiPCSamplingSetConfigurationAttribute != nullptr &&
         c.cuptiRegisterComputeCrcCallback != nullptr;
}

bool refused(CUptiResult result, const char* step) {
  if (result == CUPTI_SUCCESS) return false;
  report_loss("pc sampling", "no samples of program counters: " + counter_remedy(result) + " (" + step +
                                 ": " + result_name(result) + ")");
  return true;
}

int attribute_of(CUdevice_attribute attribute) {
  CUdevice device = 0;
  int value = 0;
  if (driver().device_attribute == nullptr || driver().device_get == nullptr ||
      driver().device_get(&device, 0) != CUDA_SUCCESS)
    return 0;
  return driver().device_attribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

// log2 of the period that is closest to the requested samples per second and multiprocessor.
uint32_t period_of(uint32_t hertz) {
  const int khz = attribute_of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  const double clock = khz > 0 ? khz * 1e3 : 1.5e9;
  const long exponent = std::lround(std::log2(clock / hertz));
  return static_cast<uint32_t>(std::clamp<long>(exponent, kLeastPeriod, kMostPeriod));
}

uint64_t hardware_buffer_of(uint32_t hertz) {
  const int multiprocessors = attribute_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const uint64_t schedulers = 4ull * static_cast<uint64_t>(multiprocessors > 0 ? multiprocessors : 128);
  return std::clamp(schedulers * hertz * kBytesPerSample, kLeastBuffer, kMostBuffer);
}

template <class T>
T params(size_t size, CUcontext context) {
  T value = {};
  value.size = size;
  value.ctx = context;
  return value;
}

// The reasons that come in two indices; what else CUPTI counts (samples, drops) is not one.
std::vector<Reason> paired(const std::vector<uint32_t>& index, const std::vector<char*>& names) {
  std::vector<Reason> found;
  const auto find = [&](const std::string& name) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (name == names[i]) return index[i];
    }
    return UINT32_MAX;
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    if (name.substr(0, kPrefix.size()) != kPrefix || index[i] >= kMostReasons) continue;
    const std::string_view reason = name.substr(kPrefix.size());
    if (reason.size() > kTwin.size() && reason.substr(reason.size() - kTwin.size()) == kTwin) continue;
    found.push_back({intern(reason), index[i], find(std::string(name) + std::string(kTwin))});
  }
  return found;
}

bool ask_reasons(Sampled* one) {
  size_t count = 0;
  auto number = params<CUpti_PCSamplingGetNumStallReasonsParams>(CUpti_PCSamplingGetNumStallReasonsParamsSize,
                                                                 one->context);
  number.numStallReasons = &count;
  if (refused(cupti().cuptiPCSamplingGetNumStallReasons(&number), "number of stall reasons")) return false;
  std::vector<std::string> texts(count, std::string(CUPTI_STALL_REASON_STRING_SIZE, '\0'));
  std::vector<char*> names;
  for (auto& text : texts) names.push_back(text.data());
  std::vector<uint32_t> index(count);
  auto list =
      params<CUpti_PCSamplingGetStallReasonsParams>(CUpti_PCSamplingGetStallReasonsParamsSize, one->context);
  list.numStallReasons = count;
  list.stallReasonIndex = index.data();
  list.stallReasons = names.data();
  if (refused(cupti().cuptiPCSamplingGetStallReasons(&list), "stall reasons")) return false;
  if (count > kMostReasons) {
    report_loss("pc sampling", "no samples of program counters: this GPU has more stall reasons than 64");
    return false;
  }
  one->reasons = paired(index, names);
  return true;
}

bool configure(Sampled* one) {
  const uint32_t hertz = settings().pc_sampling, period = period_of(hertz);
  CUpti_PCSamplingConfigurationInfo info[4] = {};
  info[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
  info[0].attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
  info[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
  info[1].attributeData.samplingPeriodData.samplingPeriod = period;
  info[2].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE;
  info[2].attributeData.hardwareBufferSizeData.hardwareBufferSize = hardware_buffer_of(hertz);
  info[3].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
  info[3].attributeData.samplingDataBufferData.samplingDataBuffer = one->rest;
  auto all = params<CUpti_PCSamplingConfigurationInfoParams>(CUpti_PCSamplingConfigurationInfoParamsSize,
                                                             one->context);
  all.numAttributes = sizeof info / sizeof info[0];
  all.pPCSamplingConfigurationInfo = info;
  one->cycles = 1u << period;
  return !refused(cupti().cuptiPCSamplingSetConfigurationAttribute(&all), "configuration");
}

bool disable(const Sampled& one) {
  auto off = params<CUpti_PCSamplingDisableParams>(CUpti_PCSamplingDisableParamsSize, one.context);
  return cupti().cuptiPCSamplingDisable(&off) == CUPTI_SUCCESS;
}

// Writes one row per stall reason of an instruction; returns the number of samples.
uint64_t write_instruction(const CUpti_PCSamplingPCData& pc, const Sampled& one, PcSample row) {
  uint64_t counts[kMostReasons] = {}, sum = 0;
  for (size_t i = 0; i < pc.stallReasonCount && i < kMostReasons; ++i) {
    const uint32_t index = pc.stallReason[i].pcSamplingStallReasonIndex;
    if (index < kMostReasons) counts[index] += pc.stallReason[i].samples;
  }
  row.checksum = pc.cubinCrc;
  row.pc = pc.pcOffset;
  row.name = pc.functionName != nullptr ? intern_c(pc.functionName) : 0;
  row.correlation = pc.correlationId;
  for (const Reason& reason : one.reasons) {
    row.reason = reason.name;
    row.samples = static_cast<uint32_t>(counts[reason.all]);
    row.not_issued = reason.not_issued < kMostReasons ? static_cast<uint32_t>(counts[reason.not_issued]) : 0;
    sum += row.samples;
    if (row.samples != 0 || row.not_issued != 0) write(row);
  }
  return sum;
}

// Adds what one buffer holds to the window and writes its rows.
void take(const CUpti_PCSamplingData& data, const Sampled& one, bool wanted, PcWindow* window) {
  uint64_t samples = 0;
  PcSample row = {};
  row.start = window->start;
  row.end = window->end;
  row.context = one.id;
  for (size_t i = 0; wanted && i < data.totalNumPcs && i < kPcs; ++i)
    samples += write_instruction(data.pPcData[i], one, row);
  window->unattributed += data.nonUsrKernelsTotalSamples;
  window->dropped += data.droppedSamples;
  window->samples +=
      std::max(data.totalSamples, samples + data.nonUsrKernelsTotalSamples + data.droppedSamples);
  if (data.hardwareBufferFull != 0) window->flags |= 1;
}

// Samples outside of the program's range are thrown away.
bool in_recorded_range() { return !settings().capture_range || recording(); }

uint64_t thread_cpu_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000ull + static_cast<uint64_t>(time.tv_nsec);
}

void report_window(const PcWindow& window) {
  if (window.dropped != 0)
    report_loss("pc sampling",
                "the GPU dropped samples of program counters: ask for fewer with --pc-sampling HZ",
                window.dropped, Severity::lost, window.start, window.end, PcSample::kKind);
  if ((window.flags & 1) != 0)
    report_loss(
        "pc sampling",
        "the GPU's buffer for samples of program counters ran full: ask for fewer with --pc-sampling HZ", 1,
        Severity::lost, window.start, window.end, PcSample::kKind);
}

PcWindow window_of(const Sampled& one) {
  PcWindow window = {};
  window.start = one.window_start;
  window.end = now_ns();
  window.context = one.id;
  window.period = one.cycles;
  return window;
}

void finish_window(Sampled* one, PcWindow* window, uint64_t began, bool wanted) {
  window->cost = thread_cpu_ns() - began;
  one->window_start = window->end;
  if (!wanted || (window->samples == 0 && window->flags == 0)) return;
  write(*window);
  report_window(*window);
}

void broke(CUptiResult result) {
  if (g_broken.exchange(true)) return;
  report_loss("pc sampling", std::string("no more samples of program counters: CUPTI failed to give them (") +
                                 result_name(result) + "); another profiler may sample this GPU");
}

// Everything CUPTI has decoded for one context. Requires g_collecting. Returns its cost in ns.
uint64_t collect(Sampled* one, bool wanted) {
  if (g_buffer == nullptr) g_buffer = new_buffer();
  if (g_buffer == nullptr || g_broken) return 0;
  const uint64_t began = thread_cpu_ns();
  PcWindow window = window_of(*one);
  auto get = params<CUpti_PCSamplingGetDataParams>(CUpti_PCSamplingGetDataParamsSize, one->context);
  get.pcSamplingData = g_buffer;
  do {
    g_buffer->totalNumPcs = g_buffer->remainingNumPcs = 0;
    const CUptiResult result = cupti().cuptiPCSamplingGetData(&get);
    if (result == CUPTI_ERROR_OUT_OF_MEMORY)
      window.flags |= 1;
    else if (result != CUPTI_SUCCESS)
      broke(result);
    if (result != CUPTI_SUCCESS) break;
    take(*g_buffer, *one, wanted, &window);
  } while (g_buffer->remainingNumPcs != 0 && g_buffer->totalNumPcs != 0);
  finish_window(one, &window, began, wanted);
  return window.cost;
}

// Under g_collecting.
void finish(Sampled* one, bool wanted) {
  collect(one, wanted);
  const uint64_t began = thread_cpu_ns();
  if (!g_broken && disable(*one)) {
    PcWindow window = window_of(*one);
    take(*one->rest, *one, wanted, &window);
    if (one->rest->remainingNumPcs != 0 && wanted)
      report_loss("pc sampling", "samples of these instructions did not fit at the end of a context",
                  one->rest->remainingNumPcs, Severity::lost, window.start, window.end, PcSample::kKind);
    finish_window(one, &window, began, wanted);
    free_buffer(one->rest);
  }
  release_gpu(one->device);
  delete one;
}

std::vector<Sampled*> take_sampled(CUcontext context) {
  const Guard guard(&g_lock);
  std::vector<Sampled*> taken, left;
  for (Sampled* one : sampled())
    (context == nullptr || one->context == context ? taken : left).push_back(one);
  sampled().swap(left);
  if (sampled().empty()) g_next.store(0, std::memory_order_relaxed);
  return taken;
}

// Ends sampling of one context, of all for null.
void end_sampling(CUcontext context, bool wanted) {
  const std::vector<Sampled*> ending = take_sampled(context);
  if (ending.empty()) return;
  // The program may hold locks that CUPTI waits for while holding ours: losing samples is better than a
  // deadlock.
  if (!lock_within(&g_collecting, kPatienceMs)) {
    report_loss("pc sampling", "samples of a context that ended while they were collected", ending.size());
    return;
  }
  for (Sampled* one : ending) finish(one, wanted);
  pthread_mutex_unlock(&g_collecting);
}

void CUPTIAPI checksum(const void* image, size_t size, uint64_t* result) {
  *result = image_checksum(image, size);
}

}  // namespace

void begin_pc_sampling(bool contexts_exist) {
  if (settings().pc_sampling == 0) return;
  if (!available()) {
    report_loss("pc sampling", "no samples of program counters: this CUPTI has no PC sampling");
    return;
  }
  cupti().cuptiRegisterComputeCrcCallback(checksum);
  if (contexts_exist)
    report_loss(
        "pc sampling",
        "no samples of program counters in CUDA contexts that are older than the recording: start the "
        "program under `warpsight record --pc-sampling on`");
}

void sample_context(CUcontext context) {
  if (settings().pc_sampling == 0 || !available() || g_broken) return;
  uint32_t device = 0;
  cupti().cuptiGetDeviceId(context, &device);
  std::string other;
  if (!take_gpu(device, &other)) {
    report_loss("pc sampling", "no samples of program counters: this GPU is sampled in " + other +
                                   ", and can be in one process at a time");
    return;
  }
  auto on = params<CUpti_PCSamplingEnableParams>(CUpti_PCSamplingEnableParamsSize, context);
  if (refused(cupti().cuptiPCSamplingEnable(&on), "begin")) return release_gpu(device);
  auto* one = new Sampled{context, context_id(context), device, 0, now_ns(), {}, new_buffer()};
  if (one->rest == nullptr || !ask_reasons(one) || !configure(one)) {
    release_gpu(device);
    disable(*one);
    if (one->rest != nullptr) free_buffer(one->rest);
    delete one;
    return;
  }
  const Guard guard(&g_lock);
  sampled().push_back(one);
  if (g_next.load(std::memory_order_relaxed) == 0)
    g_next.store(one->window_start + settings().flush_ms * 1000000ull, std::memory_order_relaxed);
}

void collect_pc_samples() {
  const uint64_t due = g_next.load(std::memory_order_relaxed), now = now_ns();
  if (due == 0 || now < due) return;
  const Guard collecting(&g_collecting);
  std::vector<Sampled*> all;
  {
    const Guard guard(&g_lock);
    all = sampled();
  }
  uint64_t cost = 0;
  for (Sampled* one : all) cost += collect(one, in_recorded_range());
  const uint64_t window = std::max<uint64_t>(settings().flush_ms * 1000000ull, cost * kCostShare);
  uint64_t expected = due;
  g_next.compare_exchange_strong(expected, now + window, std::memory_order_relaxed);
}

bool pc_sampling_broke() { return g_broken; }

uint32_t pc_window_ms(uint32_t idle_ms) {
  return g_next.load(std::memory_order_relaxed) == 0 ? idle_ms
                                                     : std::min<uint32_t>(idle_ms, settings().flush_ms);
}

void end_sampling_of(CUcontext context) { end_sampling(context, in_recorded_range()); }

void end_pc_sampling() { end_sampling(nullptr, !settings().capture_range || in_range()); }

}  // namespace warpsight
