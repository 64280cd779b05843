// --capture-range profiler-api: recording is on between the program's own cudaProfilerStart and
// cudaProfilerStop. Without it, these calls leave a marker.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <vector>

#include "cuda/api_rules.h"

namespace warpsight {

// Whether the recorder is attached and waits for a range, so that modules, contexts and graphs are heard of.
bool awaiting_range();
void set_awaiting_range(bool waits);

// A call while nothing is recorded: cudaProfilerStart begins a range.
void outside_of_range(uint8_t domain, uint32_t cbid, const CUpti_CallbackData& call);

// cudaProfilerStart or cudaProfilerStop returned inside of a recording.
void range_call(const ApiRule& rule, uint32_t correlation);

// Drops the ranges of the previous CUPTI session, whose ids start over.
void begin_range_session();

// Correlation ids of calls between a start and a stop, exclusive; the newest range may be open.
struct RangeOfCalls {
  uint32_t after, before;
  bool open;
};

// Which records belong to a range: kernels launched before it end inside of it, and those launched inside may
// end after it. For the decoder; one thread.
class RangeFilter {
 public:
  void refresh();  // before a buffer
  bool inside(uint32_t correlation) const;

 private:
  std::vector<RangeOfCalls> ranges_;  // the newest first
  uint64_t version_ = 0;              // of the list they were copied from
  bool filters_ = false;
};

}  // namespace warpsight
