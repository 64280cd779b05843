#include "recorder.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "../runtime/runtime.h"
#include "../stacks/stacks.h"
#include "command.h"

namespace warpsight {

volatile uint32_t g_cl_recording = 0;
ClKinds g_cl_kinds;

namespace {

// Out of the way of CUPTI, which numbers from 1 in the same arena, and near enough that no id looks wrapped.
constexpr uint32_t kFirstCorrelation = 0x40000000u;
constexpr uint64_t kExitWaitNs = 1000000000;  // for commands under way when the program ends
constexpr int kExitHandlers = 256;
constexpr long kPollNs = 500000;

std::atomic<uint32_t> g_correlation{kFirstCorrelation};

// WARPSIGHT_TRACE: names of record kinds; empty means all of these.
bool kind_wanted(const char* name) {
  const auto& wanted = settings().trace;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

void choose_kinds() {
  g_cl_kinds = {kind_wanted("kernel"), kind_wanted("memcpy"), kind_wanted("memset"), kind_wanted("sync"),
                kind_wanted("memory"), kind_wanted("build"),  kind_wanted("flow")};
}

// Lets everything under way end, for a bounded time: a command may wait for something that never comes.
void finish() {
  flush_queues();
  uint64_t deadline = now_ns() + kExitWaitNs;
  timespec pause{0, kPollNs};
  while (outstanding_commands() > 0 && now_ns() < deadline) nanosleep(&pause, nullptr);
  reap_queues();
  each_device([](ClDevice& device) { device.clock->report(true); });
}

bool g_exiting = false;

// Without us the program would be gone by now. While the driver compiles, waiting could let it run into
// statics that exit() has destroyed, so such a command is left alone: its launch stays without a kernel row,
// as it would be killed.
void at_exit() {
  if (g_exiting || g_cl_forked || !recording()) return;
  g_exiting = true;
  if (cold_commands() == 0) finish();
}

class OpenclRecorder final : public Recorder {
 public:
  const char* name() const override { return "opencl"; }

  void start() override {
    g_cl_recording = g_cl_recording + 1;
    choose_kinds();
    prepare_stacks();
    ranged_ = in_range();
    if (!settings().opencl_profiling) {
      report_loss("opencl",
                  "OpenCL profiling is off: host side only, kernels and copies have no device times", 1,
                  Severity::note);
    }
    announce_objects();
  }

  // Events that are still out write their rows when they come.
  void stop() override {
    finish();
    report_no_range();
    report_unmatched_cl_patterns();
  }

  void range(bool open) override { ranged_ |= open; }

  void flush(bool forced) override {
    if (!forced) return;
    if (!g_exiting) finish();
    report_no_range();
    report_unmatched_cl_patterns();
    int32_t left = outstanding_commands();
    if (g_exiting && left > 0) {
      report_loss("opencl", "commands had not ended when the program did", static_cast<uint64_t>(left));
    }
  }

  void tick() override {
    reap_queues();
    each_device([](ClDevice& device) {
      device.clock->read_timer();
      device.clock->report(false);
    });
  }

 private:
  void report_no_range() {
    if (!settings().capture_range || ranged_ || said_no_range_) return;
    said_no_range_ = true;
    report_loss(
        "opencl",
        "--capture-range profiler-api: the program did not call cudaProfilerStart after its first use of "
        "OpenCL, so nothing of OpenCL was recorded",
        1, Severity::note);
  }

  bool ranged_ = false;         // a range was open; under the runtime's recorder lock, as every method is
  bool said_no_range_ = false;  // likewise
};

}  // namespace

void start_opencl() {
  // Not in the loader's initialization: a process that never makes a context has nothing to record.
  static const bool started = [] {
    if (!ensure_runtime()) return false;
    add_recorder(new OpenclRecorder);
    wait_first_at_exit();
    return true;
  }();
  static_cast<void>(started);
}

void wait_first_at_exit() {
  // After this many kernels, the driver's compiler has finished its one-time work.
  static std::atomic<int> registered{0};
  if (registered.fetch_add(1, std::memory_order_relaxed) < kExitHandlers) atexit(at_exit);
}

uint32_t next_correlation() { return g_correlation.fetch_add(1, std::memory_order_relaxed); }

uint64_t full_correlation(uint32_t low) {
  uint64_t session = static_cast<uint32_t>(__atomic_load_n(&g_epoch, __ATOMIC_RELAXED));
  return session << 32 | low;
}

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

}  // namespace warpsight
