// Hardware metrics by the chip's names: what CUPTI needs to measure them, and their values from the
// measurement.
#pragma once

#include <cupti.h>
#include <cupti_profiler_host.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace warpsight {

class MetricSet {
 public:
  MetricSet() = default;
  ~MetricSet();
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  // Prepares Settings::metrics for a device. `availability` is CUPTI's image of the free counters. Returns
  // the problem in words, or "".
  std::string prepare(CUpti_ProfilerType type, uint32_t device, const std::vector<uint8_t>& availability);

  const std::vector<uint8_t>& image() const { return image_; }
  const char** names() { return names_.data(); }
  size_t count() const { return names_.size(); }
  size_t passes() const { return passes_; }
  uint32_t name_id(size_t index) const { return ids_[index]; }
  uint32_t unit_id(size_t index) const { return units_[index]; }

  // The values of one range or sample; empty if CUPTI provides none.
  const std::vector<double>& evaluate(const std::vector<uint8_t>& counter_data, size_t index);

 private:
  std::string refused(const char* chip, CUpti_ProfilerType type, const uint8_t* availability) const;
  void find_units();

  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<const char*> names_;
  std::vector<uint32_t> ids_, units_;  // of strings
  std::vector<uint8_t> image_;
  std::vector<double> values_;
  size_t passes_ = 0;
};

// The meaning of CUPTI's refusal to read the GPU's counters, and what to do about it.
std::string counter_remedy(CUptiResult result);

// CUPTI's name of a chip; null if it has none.
const char* chip_of_device(uint32_t device);

// Whether the profiler is ready in this process; begins it at the first call.
bool profiler_initialized();

// A parameter structure of CUPTI's profiler interfaces: all zero but for its own size.
#define WARPSIGHT_PARAMS(type, name) \
  type name = {};                    \
  name.structSize = type##_STRUCT_SIZE

}  // namespace warpsight
