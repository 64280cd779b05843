// The CUDA recorder as one backend of the runtime: start, stop, flush, tick.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "runtime/runtime.h"

namespace warpsight {

class CudaRecorder : public Recorder {
 public:
  const char* name() const override { return "cuda"; }
  void start() override;
  void stop() override;
  void flush(bool forced) override;
  void leaving() override;
  void exiting() override;
  void tick() override;
  void range(bool open) override;

  // While the driver initialises, which loads us: a recording that begins now misses nothing.
  void set_injecting(bool injecting) { injecting_ = injecting; }

 private:
  enum class State {
    off,        // not attached to CUPTI
    recording,  // attached, kinds and callbacks enabled
    waiting,    // attached, for cudaProfilerStart to begin a range: definitions only
    ending,     // the same, but the kernels of the ended range may still arrive
    held,       // attached because a detach was not possible; everything disabled
    blocked,    // another client has CUPTI's one subscriber; tried again on ticks
    refused,    // no usable CUPTI, or the program keeps it (yield)
  };

  bool subscribe();
  void begin();
  void switch_on();
  void await_range();
  void switch_kinds_off();
  bool attached() const {
    return state_ == State::recording || state_ == State::waiting || state_ == State::ending;
  }
  void leave_cupti();
  void flush_records(bool forced);
  void note_late_start();
  void report_counters();
  void report_no_range();
  void report_unknown_modules();
  bool range_is_complete() const;
  void check_health();
  bool buffers_taken_over();

  State state_ = State::off;
  bool injecting_ = false;
  bool exiting_ = false;  // the next flush is the last
  bool said_blocked_ = false;
  bool said_no_range_ = false;
  uint32_t ranges_ = 0;       // begun in this session
  uint64_t range_ended_ = 0;  // CLOCK_MONOTONIC ns
  uint32_t session_ = 0;
  uint32_t ticks_ = 0;
  uint32_t quiet_ticks_ = 0;           // ticks with launches but no sign of CUPTI using our buffers
  uint64_t launches_at_activity_ = 0;  // launches_seen() when our buffers were last used
  uint64_t seen_requests_ = 0, seen_foreign_ = 0, seen_discarded_ = 0;
  CUpti_SubscriberHandle subscriber_ = nullptr;
};

}  // namespace warpsight
