// Activity records into rows: one pass over a completed buffer, on the recorder's worker thread.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/capture_range.h"
#include "cuda/modules.h"
#include "cuda/versions.h"
#include "maca/clock.h"
#include "ring/shape_cache.h"

namespace warpsight {

// Counts of a session's decoded records; read by the recorder after the worker has drained.
struct DecodeCounters {
  uint64_t unknown_modules;
  uint64_t kernels, graph_launches, records, unknown_kinds, waits_without_times;
  uint64_t senseless;  // since the last report: records with impossible contents
};

class Decoder {
 public:
  // Before the first buffer of a session.
  void begin_session(uint32_t cupti_version);

  // Writes a row for every record of the buffer, waiting for the drainer where a ring is full.
  void decode(uint8_t* memory, size_t valid);

  // Loss rows for timestamps that were 0 since the last call.
  void report();

  const DecodeCounters& counters() const { return counters_; }

  // Kernels since the last call whose module is unknown because recording did not begin with CUDA.
  uint64_t take_unknown_modules() { return std::exchange(counters_.unknown_modules, 0); }

 private:
  void decode_record(const CUpti_Activity* record);
  void kernel(const CUpti_Activity* record);
  void graph_launch(const CUpti_Activity* record);
  void memcpy(const CUpti_Activity* record);
  void memcpy_peer(const CUpti_Activity* record);
  void memset(const CUpti_Activity* record);
  void synchronization(const CUpti_Activity* record);
  void event(const CUpti_Activity* record);
  void memory(const CUpti_Activity* record);
  void memory_pool(const CUpti_Activity* record);
  void overhead(const CUpti_Activity* record);
  bool sensible(const CUpti_ActivityKernel10& kernel);
  // A record's time on CLOCK_MONOTONIC, which CUPTI's records are on already.
  uint64_t host_time(uint64_t time) const { return fitted_ && time != 0 ? fit_.host(time) : time; }

  RecordSizes sizes_ = {};
  void note(uint32_t context, uint32_t device);

  uint32_t last_context_ = 0;  // already has a row
  ShapeCache shapes_ = {};
  ModuleCache modules_;
  RangeFilter range_;
  DecodeCounters counters_ = {};
  ClockFit fit_;         // of MCPTI's clock, as of the buffer that is decoded
  bool fitted_ = false;  // there is one
};

}  // namespace warpsight
