// The CUDA functions that get a row, and where the object and size are in their arguments. Data, not code:
// CUPTI's callback id and the parameter structs that NVIDIA generates for each function provide all of it at
// compile time.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace warpsight {

enum class CallGroup : uint8_t {
  other,
  launch,
  copy,
  set,
  memory,
  sync,
  event,
  stream,
  module,
  graph,
  profiler
};

// How a launch passes its stream, grid and block.
enum class LaunchForm : uint8_t {
  none,              // not a launch, or its arguments are not enough
  dim3_arguments,    // cudaLaunchKernel and its kin
  runtime_config,    // cudaLaunchKernelExC
  driver_arguments,  // cuLaunchKernel, cuLaunchCooperativeKernel
  driver_config,     // cuLaunchKernelEx
  driver_grid,       // cuLaunchGrid
  driver_list,       // cuLaunchCooperativeKernelMultiDevice
  graph,             // (graph, stream)
};

enum class ObjectAt : uint8_t {
  nowhere,
  value,
  pointed
};  // pointed: the value that the call stored through the pointer
enum class BytesAt : uint8_t { nowhere, u32, u64, area };  // area: a width and the height after it

struct ApiRule {
  const char* name;  // with CUPTI's version suffix, as in the callback id's name
  uint16_t cbid;
  uint8_t domain;  // CUPTI_CB_DOMAIN_RUNTIME_API or _DRIVER_API
  CallGroup group;
  LaunchForm form;
  ObjectAt object;
  uint8_t object_offset;
  BytesAt bytes;
  uint8_t bytes_offset;
};

constexpr uint32_t kMostCallbackIds = 2048;  // more than any release has; ids beyond it are left alone

// What to subscribe to, by settings().api ("default", "launches", "all", "off" or names, possibly patterns).
// Each launch triggers one callback, in the driver API domain, except where "all" or a name requests more.
struct SelectedCall {
  uint8_t domain;
  uint16_t cbid;
};
std::vector<SelectedCall> select_calls(const std::string& api);

// cudaProfilerStart and cudaProfilerStop, in both domains.
std::vector<SelectedCall> range_calls();

// The rule of a callback id; without object and size for functions that are recorded only with "all" or by
// name.
const ApiRule& rule_of(uint8_t domain, uint32_t cbid);

// Fills the table behind rule_of; once, before the first callback.
void index_rules();

}  // namespace warpsight
