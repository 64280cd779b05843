#include "rocm/api_rules.h"

#include <fnmatch.h>

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "backends.h"       // generated from warpsight_plugins/backends.py
#include "hip_functions.h"  // generated from src/warpsight_plugins/rocm/hip_functions.txt
#include "ring/ring.h"
#include "rocm/functions.h"

namespace warpsight::rocm {
namespace {

using G = CallGroup;
using F = LaunchForm;
using O = ObjectAt;
using B = BytesAt;

constexpr int kMostOperations = 4096;
constexpr uint16_t kUnlisted = 0x8000;  // and the library's own number: a function newer than our list

constexpr ApiRule launch(const char* name, F form, uint8_t stream) {
  return {name, G::launch, form, O::nowhere, 0, B::nowhere, 0, stream};
}
// Copies and sets: the destination first, then the size somewhere.
constexpr ApiRule copy(const char* name, B bytes, uint8_t bytes_at, uint8_t stream = kNowhere,
                       uint8_t source = 8) {
  return {name, G::copy, F::none, O::value, 0, bytes, bytes_at, stream, source};
}
constexpr ApiRule set(const char* name, B bytes, uint8_t bytes_at, uint8_t stream = kNowhere) {
  return {name, G::set, F::none, O::value, 0, bytes, bytes_at, stream};
}
constexpr ApiRule allocate(const char* name, B bytes, uint8_t bytes_at, uint8_t stream = kNowhere) {
  return {name, G::memory, F::none, O::pointed, 0, bytes, bytes_at, stream};
}
constexpr ApiRule release(const char* name, uint8_t stream = kNowhere) {
  return {name, G::memory, F::none, O::value, 0, B::nowhere, 0, stream};
}
// Calls about the object in their first argument, and the stream somewhere.
constexpr ApiRule about(const char* name, G group, uint8_t stream = kNowhere, uint8_t object = 0) {
  return {name, group, F::none, O::value, object, B::nowhere, 0, stream};
}
constexpr ApiRule made(const char* name, G group) {
  return {name, group, F::none, O::pointed, 0, B::nowhere, 0, kNowhere};
}
constexpr ApiRule plain(const char* name, G group, uint8_t stream = kNowhere) {
  return {name, group, F::none, O::nowhere, 0, B::nowhere, 0, stream};
}

constexpr ApiRule kRules[] = {
    // clang-format off
    // Launches: (function, grid, block, arguments, shared, stream), (function, 6 numbers, shared, stream), …
    launch("hipLaunchKernel", F::dimensions, 48),
    launch("hipExtLaunchKernel", F::dimensions, 48),
    launch("hipLaunchCooperativeKernel", F::dimensions, 48),
    launch("hipModuleLaunchKernel", F::groups, 40),
    launch("hipModuleLaunchCooperativeKernel", F::groups, 40),
    launch("hipExtModuleLaunchKernel", F::items, 40),
    launch("hipHccModuleLaunchKernel", F::items, 40),
    launch("hipLaunchKernelExC", F::config, kNowhere),
    launch("hipDrvLaunchKernelEx", F::config, kNowhere),
    launch("hipLaunchByPtr", F::none, kNowhere),
    launch("hipExtLaunchMultiKernelMultiDevice", F::none, kNowhere),
    launch("hipLaunchCooperativeKernelMultiDevice", F::none, kNowhere),
    launch("hipModuleLaunchCooperativeKernelMultiDevice", F::none, kNowhere),
    launch("hipGraphLaunch", F::graph, 8),
    launch("hipLaunchHostFunc", F::none, 0),
    // Copies
    copy("hipMemcpy", B::bytes, 16),
    copy("hipMemcpyAsync", B::bytes, 16, 32),
    copy("hipMemcpyWithStream", B::bytes, 16, 32),
    copy("hipMemcpyHtoD", B::bytes, 16),
    copy("hipMemcpyDtoH", B::bytes, 16),
    copy("hipMemcpyDtoD", B::bytes, 16),
    copy("hipMemcpyHtoDAsync", B::bytes, 16, 24),
    copy("hipMemcpyDtoHAsync", B::bytes, 16, 24),
    copy("hipMemcpyDtoDAsync", B::bytes, 16, 24),
    copy("hipMemcpyPeer", B::bytes, 32, kNowhere, 16),
    copy("hipMemcpyPeerAsync", B::bytes, 32, 40, 16),
    copy("hipMemcpyToSymbol", B::bytes, 16),
    copy("hipMemcpyFromSymbol", B::bytes, 16),
    copy("hipMemcpyToSymbolAsync", B::bytes, 16, 40),
    copy("hipMemcpyFromSymbolAsync", B::bytes, 16, 40),
    copy("hipMemcpy2D", B::area, 32, kNowhere, 16),
    copy("hipMemcpy2DAsync", B::area, 32, 56, 16),
    plain("hipMemcpy3D", G::copy),
    plain("hipMemcpy3DAsync", G::copy, 8),
    plain("hipDrvMemcpy3D", G::copy),
    plain("hipDrvMemcpy3DAsync", G::copy, 8),
    plain("hipMemcpyParam2D", G::copy),
    plain("hipMemcpyParam2DAsync", G::copy, 8),
    copy("hipMemPrefetchAsync", B::bytes, 8, 24, kNowhere),
    // Sets: (destination, value, count, stream)
    set("hipMemset", B::bytes, 16),
    set("hipMemsetAsync", B::bytes, 16, 24),
    set("hipMemsetD8", B::bytes, 16),
    set("hipMemsetD8Async", B::bytes, 16, 24),
    set("hipMemsetD16", B::halves, 16),
    set("hipMemsetD16Async", B::halves, 16, 24),
    set("hipMemsetD32", B::words, 16),
    set("hipMemsetD32Async", B::words, 16, 24),
    set("hipMemset2D", B::area, 24),
    set("hipMemset2DAsync", B::area, 24, 40),
    // Allocations
    allocate("hipMalloc", B::bytes, 8),
    allocate("hipExtMallocWithFlags", B::bytes, 8),
    allocate("hipMallocAsync", B::bytes, 8, 16),
    allocate("hipMallocFromPoolAsync", B::bytes, 8, 24),
    allocate("hipMallocManaged", B::bytes, 8),
    allocate("hipMallocHost", B::bytes, 8),
    allocate("hipHostMalloc", B::bytes, 8),
    allocate("hipHostAlloc", B::bytes, 8),
    allocate("hipExtHostAlloc", B::bytes, 8),
    allocate("hipMemAllocHost", B::bytes, 8),
    allocate("hipMallocPitch", B::area, 16),
    allocate("hipMemAllocPitch", B::area, 16),
    release("hipFree"),
    release("hipFreeAsync", 8),
    release("hipFreeHost"),
    release("hipHostFree"),
    // Waits and events
    plain("hipDeviceSynchronize", G::sync),
    plain("hipCtxSynchronize", G::sync),
    about("hipStreamSynchronize", G::sync, 0),
    about("hipEventSynchronize", G::sync),
    about("hipEventRecord", G::event, 8),
    about("hipEventRecordWithFlags", G::event, 8),
    about("hipStreamWaitEvent", G::event, 0, 8),
    made("hipEventCreate", G::event),
    made("hipEventCreateWithFlags", G::event),
    about("hipEventDestroy", G::event),
    // Streams, modules, graphs
    made("hipStreamCreate", G::stream),
    made("hipStreamCreateWithFlags", G::stream),
    made("hipStreamCreateWithPriority", G::stream),
    made("hipExtStreamCreateWithCUMask", G::stream),
    about("hipStreamDestroy", G::stream, 0),
    made("hipModuleLoad", G::module),
    made("hipModuleLoadData", G::module),
    made("hipModuleLoadDataEx", G::module),
    about("hipModuleUnload", G::module),
    made("hipGraphInstantiate", G::graph),
    made("hipGraphInstantiateWithFlags", G::graph),
    made("hipGraphInstantiateWithParams", G::graph),
    about("hipGraphExecDestroy", G::graph),
    about("hipGraphExecUpdate", G::graph),
    // clang-format on
};
constexpr ApiRule kOther = {""};

struct Operations {
  Operation by_number[kMostOperations];
  std::vector<int> numbers;  // in the library's order
};
Operations& operations() {
  static Operations* const value = new Operations;  // never destroyed: callbacks outlive static destructors
  return *value;
}

constexpr std::string_view kPerThread = "_spt";  // the twin of a function for the per-thread default stream

std::string_view base_name(std::string_view name) {
  if (name.size() > kPerThread.size() && name.substr(name.size() - kPerThread.size()) == kPerThread)
    name.remove_suffix(kPerThread.size());
  return name;
}

std::string name_of(int kind, int number) {
  const char* name = nullptr;
  if (sdk().operation_name(kind, number, &name, nullptr) != kSuccess || name == nullptr) return "";
  return name;
}

int take_operation(int kind, int number, void* data) {
  if (number < 0 || number >= kMostOperations) return 0;
  const auto& numbers = *static_cast<std::unordered_map<std::string_view, uint16_t>*>(data);
  const std::string name = name_of(kind, number);
  const auto listed = numbers.find(name);
  Operation& operation = operations().by_number[number];
  operation = {&kOther, listed != numbers.end() ? listed->second : static_cast<uint16_t>(kUnlisted | number)};
  for (const ApiRule& rule : kRules) {
    if (base_name(name) == rule.name) operation.rule = &rule;
  }
  operations().numbers.push_back(number);
  return 0;
}

bool matches(const std::string& api, int number) {
  const std::string name(base_name(name_of(kHipRuntimeApi, number)));
  size_t from = 0;
  while (from <= api.size()) {
    size_t to = api.find(',', from);
    if (to == std::string::npos) to = api.size();
    if (fnmatch(api.substr(from, to - from).c_str(), name.c_str(), 0) == 0) return true;
    from = to + 1;
  }
  return false;
}

int take_marker(int kind, int number, void* data) {
  auto* found = static_cast<MarkerOperations*>(data);
  const std::string name = name_of(kind, number);
  if (name == "roctxMarkA") found->mark = number;
  if (name == "roctxRangePushA") found->push = number;
  if (name == "roctxRangePop") found->pop = number;
  if (name == "roctxRangeStartA") found->start = number;
  if (name == "roctxRangeStop") found->stop = number;
  return 0;
}

}  // namespace

void index_operations() {
  for (Operation& each : operations().by_number) each = {&kOther, kUnlisted};
  operations().numbers.clear();
  std::unordered_map<std::string_view, uint16_t> numbers;
  uint16_t number = 0;
  for (const char* name : kHipFunctions) numbers.emplace(name, number++);
  sdk().each_operation(kHipRuntimeApi, take_operation, &numbers);
}

void write_function_names() {
  for (const int number : operations().numbers) {
    const uint16_t function = operation_of(number).function;
    if ((function & kUnlisted) == 0) continue;
    ApiFunction row = {};
    row.domain = kApiHip;
    row.number = function;
    row.name = intern(name_of(kHipRuntimeApi, number));
    write(row);
  }
}

const Operation& operation_of(int number) {
  static constexpr Operation kNobody = {&kOther, kUnlisted};
  return number >= 0 && number < kMostOperations ? operations().by_number[number] : kNobody;
}

std::vector<int> select_operations(const std::string& api) {
  std::vector<int> chosen;
  if (api == "off") return chosen;
  const bool everything = api == "default" || api.empty();
  for (const int number : operations().numbers) {
    const CallGroup group = operation_of(number).rule->group;
    const bool wanted = group == CallGroup::launch || api == "all" ||
                        (everything && group != CallGroup::other) ||
                        (!everything && api != "launches" && matches(api, number));
    if (wanted) chosen.push_back(number);
  }
  return chosen;
}

MarkerOperations marker_operations() {
  MarkerOperations found;
  sdk().each_operation(kMarkerCoreApi, take_marker, &found);
  return found;
}

}  // namespace warpsight::rocm
