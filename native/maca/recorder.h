// The recorder for MetaX GPUs as one backend of the runtime. It is based on the public information about
// MCPTI and has not run on a MetaX GPU; the trace says so.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <string>
#include <vector>

#include "maca/api_names.h"
#include "runtime/runtime.h"

namespace warpsight {

class MacaRecorder : public Recorder {
 public:
  const char* name() const override { return "maca"; }
  void start() override;
  void stop() override;
  void flush(bool forced) override;
  void tick() override;

  // We were in the process before MACA's first call, so nothing was missed.
  void set_early() { early_ = true; }

 private:
  enum class State {
    off,        // nothing enabled
    recording,  // kinds and callbacks enabled
    blocked,    // another client has MCPTI's one subscriber; tried again on ticks
    refused,    // no usable libmcpti, or the program keeps it (yield)
  };

  bool load();
  void subscribe();
  void begin();
  void set_up_records();
  void enable_kinds();
  void enable_callbacks(bool enable);
  void report_counters();

  State state_ = State::off;
  bool early_ = false, loaded_ = false, subscribed_ = false, said_blocked_ = false, said_clock_ = false;
  uint32_t session_ = 0, ticks_ = 0;
  uint64_t seen_foreign_ = 0, seen_discarded_ = 0;
  void* library_ = nullptr;
  std::vector<CUpti_ActivityKind> kinds_;  // enabled
  std::vector<MacaCallback> callbacks_;    // to enable one by one; empty: by whole domains
  CUpti_SubscriberHandle subscriber_ = nullptr;
};

}  // namespace warpsight
