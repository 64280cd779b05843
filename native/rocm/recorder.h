// The ROCm recorder as one backend of the runtime: start, stop, flush, tick.
#pragma once

#include "rocm/abi.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {

class RocmRecorder : public Recorder {
 public:
  const char* name() const override { return "rocm"; }
  void start() override;
  void stop() override;
  void flush(bool forced) override;
  void tick() override;

  // Inside the library's initialization, which is the only time for it: contexts, buffer, services. False
  // when nothing can be recorded; table loss says why.
  bool configure();

  // The records that the library still held when it was unloaded. Not under the runtime's lock.
  void finish();

 private:
  enum class State { off, recording, blocked };  // blocked: the context cannot start; tried again on ticks

  bool make_contexts();
  void trace_calls();
  void trace_symbols();
  void trace_records();
  bool trace_kernels();
  void begin();
  bool drain(uint32_t milliseconds);

  State state_ = State::off;
  ContextId context_ = {};  // what is recorded
  ContextId symbols_ = {};  // code objects, always: a kernel's name comes once, when its code is loaded
  BufferId buffer_ = {};
  bool usable_ = false;
  uint32_t ticks_ = 0;
};

}  // namespace warpsight::rocm
