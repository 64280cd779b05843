// The HIP functions that get a row, and where in their arguments the stream, the object and the size are.
//
// rocprofiler-sdk hands a call's arguments over as a struct of them, in the order of the function's
// documented prototype; the offsets follow from that. Its operation numbers differ between versions, so
// functions are found by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace warpsight::rocm {

enum class CallGroup : uint8_t { other, launch, copy, set, memory, sync, event, stream, module, graph };

// How a launch passes its grid, block and dynamic shared memory.
enum class LaunchForm : uint8_t {
  none,        // not a launch, or one without useful arguments
  dimensions,  // hipLaunchKernel and its kin: two dim3 after the function
  groups,      // hipModuleLaunchKernel: six numbers, the grid in work-groups
  items,       // hipExtModuleLaunchKernel: six numbers, the grid in work-items
  config,      // hipLaunchKernelExC, hipDrvLaunchKernelEx: a pointer to all of it
  graph,       // (graph, stream)
};

enum class ObjectAt : uint8_t {
  nowhere,
  value,
  pointed
};  // pointed: the value that the call stored through the pointer
enum class BytesAt : uint8_t {
  nowhere,
  bytes,
  halves,
  words,
  area
};  // area: a width and the height after it

constexpr uint8_t kNowhere = 255;

struct ApiRule {
  const char* name;
  CallGroup group = CallGroup::other;
  LaunchForm form = LaunchForm::none;
  ObjectAt object = ObjectAt::nowhere;
  uint8_t object_offset = 0;
  BytesAt bytes = BytesAt::nowhere;
  uint8_t bytes_offset = 0;
  uint8_t stream_offset = kNowhere;
  uint8_t source_offset = kNowhere;  // of the address that a copy reads
};

// What is known about an operation of the loaded library.
struct Operation {
  const ApiRule* rule;
  uint16_t function;  // our number of it (warpsight_plugins/rocm/hip_functions.txt)
};

// Asks the library for its operations; once, before the service is configured.
void index_operations();

// Rows that name the functions our list does not have; when a recording begins.
void write_function_names();

// The operation with this number; an unlisted one for numbers out of range.
const Operation& operation_of(int number);

// What to subscribe to: by settings().api ("default", "launches", "all", "off" or names, which may be
// patterns).
std::vector<int> select_operations(const std::string& api);

// The numbers of ROCTx's five functions that make rows, in the order mark, push, pop, start, stop; -1 where
// the library has none.
struct MarkerOperations {
  int mark = -1, push = -1, pop = -1, start = -1, stop = -1;
};
MarkerOperations marker_operations();

}  // namespace warpsight::rocm
