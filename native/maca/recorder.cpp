#include "maca/recorder.h"

#include <algorithm>

#include "cuda/buffers.h"
#include "cuda/functions.h"
#include "cuda/versions.h"
#include "cuda/worker.h"
#include "maca/callbacks.h"
#include "maca/clock.h"
#include "maca/devices.h"
#include "maca/find_mcpti.h"
#include "runtime/kernel_filter.h"
#include "stacks/stacks.h"

namespace warpsight {
namespace {

// MCPTI's versions are CUPTI's of the same records. Of 18 the sizes are known (200, 88 and 88 bytes).
constexpr uint32_t kKnownVersion = 18;
static_assert(sizeof(CUpti_ActivityKernel8) == 200 && sizeof(CUpti_ActivityMemcpy5) == 88 &&
                  sizeof(CUpti_ActivityMemset4) == 88,
              "the records of MCPTI 18");

constexpr uint32_t kRetryTicks = 5;   // between attempts to become MCPTI's subscriber
constexpr uint32_t kClockTicks = 50;  // between rows of table `clock`
constexpr uint32_t kDrainMs = 1000, kLastDrainMs = 1500, kSessionDrainMs = 10000;
constexpr size_t kPoolBytes = 128 << 20;

struct NamedKind {
  const char* name;  // of `--trace`
  CUpti_ActivityKind kind;
  bool by_default;
};
constexpr NamedKind kNamedKinds[] = {
    {"kernel", CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, true}, {"memcpy", CUPTI_ACTIVITY_KIND_MEMCPY, true},
    {"memcpy", CUPTI_ACTIVITY_KIND_MEMCPY2, true},           {"memset", CUPTI_ACTIVITY_KIND_MEMSET, true},
    {"sync", CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, false},  // the calls report it at no cost
};
// Of CUDA's kinds, those whose records MCPTI is not known to have.
constexpr const char* kUnknownKinds[] = {"event",       "memory", "overhead",     "unified_memory",
                                         "environment", "jit",    "device_graph", "external"};

void append(std::string* list, const std::string& item) { *list += (list->empty() ? "" : ", ") + item; }

bool asked_for(const char* name) {
  const auto& names = settings().trace;
  return std::find(names.begin(), names.end(), name) != names.end();
}

uint64_t CUPTIAPI timestamp() { return now_ns(); }

}  // namespace

void MacaRecorder::start() {
  if (state_ == State::recording || state_ == State::refused) return;
  if (settings().yield) {
    report_loss("maca", "MCPTI is left to the program (--yield): no GPU work and no MACA calls recorded", 1,
                Severity::note);
    state_ = State::refused;
    return;
  }
  if (!load() || !start_worker()) {
    state_ = State::refused;
    return;
  }
  state_ = State::off;
  subscribe();
  if (state_ != State::blocked) begin();
}

bool MacaRecorder::load() {
  if (loaded_) return true;
  const FoundMcpti found = find_mcpti(loaded_maca_runtime());
  if (found.handle == nullptr) {
    report_loss("maca", "no GPU work recorded: " + found.why, 1, Severity::ended);
    return false;
  }
  const std::string missing = load_mcpti(found.handle);
  if (!missing.empty()) {
    report_loss("maca", "no GPU work recorded: " + found.path + " has no function " + missing, 1,
                Severity::ended);
    return false;
  }
  uint32_t version = 0;
  if (cupti().cuptiGetVersion(&version) != CUPTI_SUCCESS || version < kKnownVersion) {
    report_loss("maca",
                "no GPU work recorded: " + found.path + " is MCPTI API version " + std::to_string(version) +
                    ", older than 18, the oldest whose records are known",
                1, Severity::ended);
    return false;
  }
  set_cupti_version(version);
  report_loss("maca",
              "recording MetaX GPUs in process is untested on hardware (" + found.path + ", version " +
                  std::to_string(version) + ")",
              1, Severity::note);
  if (version > kKnownVersion) {
    report_loss("maca",
                "MCPTI API version " + std::to_string(version) +
                    " is newer than 18, whose records are known: fields are read where 18 has them",
                1, Severity::note);
  }
  library_ = found.handle;
  return loaded_ = true;
}

// Without callbacks the GPU's records still come, so only another client's subscription keeps us from
// starting.
void MacaRecorder::subscribe() {
  if (subscribed_) return;
  const auto& c = cupti();
  if (c.cuptiSubscribe == nullptr || (c.cuptiEnableCallback == nullptr && c.cuptiEnableDomain == nullptr)) {
    report_loss("maca", std::string("no calls, launches and stacks: libmcpti has no function ") +
                            (c.cuptiSubscribe == nullptr ? "mcptiSubscribe"
                                                         : "mcptiEnableCallback, mcptiEnableDomain"));
    return;
  }
  const CUptiResult result = c.cuptiSubscribe(&subscriber_, on_maca_callback, nullptr);
  if (result == CUPTI_SUCCESS) {
    subscribed_ = true;
    if (said_blocked_)
      report_loss("maca", "MCPTI became free: recording begins only here", 1, Severity::note);
    said_blocked_ = false;
    return;
  }
  state_ = State::blocked;
  if (said_blocked_) return;
  said_blocked_ = true;
  report_loss("maca",
              std::string("no GPU work recorded while another profiler in this process (torch.profiler, "
                          "mcTracer, …) holds MCPTI: ") +
                  result_name(result));
}

void MacaRecorder::begin() {
  // Records of the session before, decoded from here on, would be joined to calls of this one.
  if (session_ != 0 && !drain_worker(kSessionDrainMs)) {
    report_loss("maca",
                "records of the recording before were decoded too late and may be joined to wrong calls");
  }
  set_session(++session_);
  begin_maca_callback_session();
  forget_clock_fit();
  begin_worker_session(cupti().version);
  if (!early_ && session_ == 1) {
    report_loss("maca",
                "recording began after MACA's runtime was loaded: MCPTI may record nothing in contexts made "
                "before; start the program with warpsight record --backend maca",
                1, Severity::note);
  }
  set_up_records();
  enable_kinds();
  prepare_stacks();
  if (subscribed_) {
    if (callbacks_.empty()) callbacks_ = maca_callbacks(library_);
    enable_callbacks(true);
  }
  state_ = State::recording;
}

// MCPTI's records keep its own clock, which is known to work; it is asked to use ours only if the library
// cannot report its time.
void MacaRecorder::set_up_records() {
  const auto& c = cupti();
  if (c.cuptiGetTimestamp != nullptr) {
    read_mcpti_clock();
  } else if (c.cuptiActivityRegisterTimestampCallback == nullptr ||
             c.cuptiActivityRegisterTimestampCallback(timestamp) != CUPTI_SUCCESS) {
    report_loss("maca",
                "GPU times are on MCPTI's own clock, not on CLOCK_MONOTONIC: libmcpti has no function "
                "mcptiGetTimestamp and takes no clock (mcptiActivityRegisterTimestampCallback)");
    said_clock_ = true;
  }
  configure_buffers(settings().buffer_bytes, kPoolBytes, true);
  const CUptiResult result = c.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
  if (result == CUPTI_SUCCESS) return;
  report_loss("maca", std::string("no GPU work recorded: MCPTI refused our buffers: ") + result_name(result),
              1, Severity::ended);
}

void MacaRecorder::enable_kinds() {
  std::string refused;
  bool waits = false;
  kinds_.clear();
  for (const auto& named : kNamedKinds) {
    if (settings().trace.empty() ? !named.by_default : !asked_for(named.name)) continue;
    const CUptiResult result = cupti().cuptiActivityEnable(named.kind);
    if (result == CUPTI_SUCCESS) {
      kinds_.push_back(named.kind);
      waits |= named.kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    } else if (named.kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
      report_loss("maca",
                  std::string("copies between devices have no records of their own: ") + result_name(result),
                  1, Severity::note);
    } else {
      append(&refused, std::string(named.name) + " (" + result_name(result) + ")");
    }
  }
  for (const char* name : kUnknownKinds) {
    if (asked_for(name)) append(&refused, std::string(name) + " (not known of MCPTI)");
  }
  set_waits_recorded(waits);
  if (!refused.empty()) report_loss("maca", "not recorded, because this MCPTI or GPU cannot: " + refused);
}

void MacaRecorder::enable_callbacks(bool enable) {
  const uint32_t on = enable ? 1 : 0;
  if (settings().api == "off") return;
  std::string refused;
  const auto note = [&refused](CUptiResult result) {
    if (result != CUPTI_SUCCESS && refused.empty()) refused = result_name(result);
  };
  for (const auto& call : callbacks_) {
    note(cupti().cuptiEnableCallback(on, subscriber_, static_cast<CUpti_CallbackDomain>(call.domain),
                                     call.cbid));
  }
  if (callbacks_.empty()) {
    if (cupti().cuptiEnableDomain == nullptr)
      refused = "libmcpti has no function mcptiEnableDomain and does not name its callbacks";
    else
      note(cupti().cuptiEnableDomain(on, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API));
  }
  if (enable && !refused.empty())
    report_loss("maca", "calls, launches and stacks are not complete: " + refused);
}

void MacaRecorder::stop() {
  if (state_ == State::blocked) state_ = State::off;
  if (state_ != State::recording) return;
  if (subscribed_) enable_callbacks(false);
  flush(true);
  for (const auto kind : kinds_) cupti().cuptiActivityDisable(kind);
  kinds_.clear();
  drain_worker(kDrainMs);
  if (subscribed_ && cupti().cuptiUnsubscribe != nullptr &&
      cupti().cuptiUnsubscribe(subscriber_) == CUPTI_SUCCESS) {
    subscribed_ = false;
  }
  state_ = State::off;
}

void MacaRecorder::flush(bool forced) {
  if (state_ != State::recording) return;
  if (cupti().cuptiGetTimestamp != nullptr && !read_mcpti_clock() && !said_clock_ && forced) {
    ClockFit fit;
    if (!copy_clock_fit(&fit)) {
      report_loss(
          "maca",
          "GPU times are on MCPTI's own clock, not on CLOCK_MONOTONIC: mcptiGetTimestamp does not give "
          "the time");
      said_clock_ = true;
    }
  }
  cupti().cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  if (!drain_worker(forced ? kLastDrainMs : kDrainMs) && forced) {
    report_loss("maca", "decoding was not finished in time at the end of the recording");
  }
  if (forced) {
    report_unmatched_patterns("maca");
    write_maca_clocks();
  }
  report_counters();
}

void MacaRecorder::tick() {
  ++ticks_;
  if (state_ == State::blocked && ticks_ % kRetryTicks == 0) {
    state_ = State::off;
    subscribe();
    if (state_ != State::blocked) begin();
  }
  if (state_ == State::recording && ticks_ % kClockTicks == 0) write_maca_clocks();
}

void MacaRecorder::report_counters() {
  report_worker_loss();
  const BufferCounters counters = buffer_counters();
  if (counters.discarded_records != seen_discarded_) {
    report_loss("maca", "the buffer pool was used up, so these records were thrown away",
                counters.discarded_records - seen_discarded_);
    seen_discarded_ = counters.discarded_records;
  }
  if (counters.foreign != seen_foreign_) {
    report_loss(
        "maca",
        "buffers of another MCPTI client came to us and were left alone; its records are lost to both",
        counters.foreign - seen_foreign_);
    seen_foreign_ = counters.foreign;
  }
}

}  // namespace warpsight
