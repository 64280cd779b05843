// One context's use of CUPTI's Range Profiler: sessions, in which numbered ranges are measured.
#pragma once

#include <cupti.h>
#include <cupti_range_profiler.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/metric_passes.h"
#include "cuda/metric_set.h"

namespace warpsight {

// Functions that return a string return the problem in words, or "".
class RangeSession {
 public:
  static constexpr size_t kRanges = 64;  // in a session

  RangeSession() = default;
  RangeSession(const RangeSession&) = delete;
  RangeSession& operator=(const RangeSession&) = delete;

  // Settings::metrics of a context.
  std::string enable(CUcontext context);
  void disable();

  // Creates the image of the next session: empty, or the intermediate results of earlier runs, see
  // load_passes().
  std::string set_up_data(uint32_t context, uint64_t session, PassState* passes);
  std::string begin(const PassState& passes);
  std::string push(size_t number);
  std::string pop();

  // `next` is the pass for a further run; `complete` means that there is none.
  std::string end(PassState* next, bool* complete);

  // For the ended session: the index in its image of each of `count` ranges; SIZE_MAX if it is missing.
  std::vector<size_t> indices(size_t count) const;

  bool enabled() const { return object_ != nullptr; }
  bool several_passes() const { return metrics.passes() > 1; }
  const std::vector<uint8_t>& data() const { return data_; }

  MetricSet metrics;

 private:
  std::string allocate();
  size_t range_name(size_t index) const;

  CUpti_RangeProfiler_Object* object_ = nullptr;
  std::vector<uint8_t> data_;
};

}  // namespace warpsight
