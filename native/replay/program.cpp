#include "replay/program.h"

#include <algorithm>
#include <cstring>

namespace warpsight::replay {
namespace {

constexpr size_t kMostWaits = 1 << 26;  // of all nodes of a graph

}  // namespace

bool Program::load() {
  for (const Module& module : script_.modules) {
    CUmodule loaded = nullptr;
    if (!report_->check(driver_, driver_.load_module(&loaded, script_.data + module.offset),
                        "loading a module"))
      return false;
    modules_.push_back(loaded);
  }
  return load_functions() && load_globals() && patch_operations() && pin_uploads() && make_streams();
}

bool Program::load_functions() {
  for (const Function& function : script_.functions) {
    CUfunction found = nullptr;
    const char* const name = script_.text(function.name);
    if (!report_->check(driver_, driver_.get_function(&found, modules_[function.module], name), name))
      return false;
    for (uint32_t i = 0; i < function.attributes; ++i) {
      const auto which = static_cast<CUfunction_attribute>(function.attribute[i].attribute);
      // The driver refuses some values that are already in force; a launch that needs another value reports
      // it.
      driver_.set_attribute(found, which, function.attribute[i].value);
    }
    functions_.push_back(found);
  }
  return true;
}

bool Program::load_globals() {
  for (size_t i = 0; i < script_.globals.count; ++i) {
    const Global& global = script_.globals[i];
    CUdeviceptr address = 0;
    size_t size = 0;
    const char* const name = script_.text(global.name);
    const CUresult found = driver_.get_global(&address, &size, modules_[global.module], name);
    if (found != CUDA_SUCCESS && !is_pointed_to(i)) {
      report_->line("note the variable %s has the contents of its module: the driver does not name it", name);
      address = 0;
    } else if (!report_->check(driver_, found, name)) {
      return false;
    } else if (size != global.size) {
      report_->line("failed -1 size %s", name);
      return false;
    }
    globals_.push_back(address);
  }
  return true;
}

bool Program::is_pointed_to(size_t global) const {
  return std::any_of(script_.patches.begin(), script_.patches.end(),
                     [=](const Patch& patch) { return patch.global == global; });
}

bool Program::patch_operations() {
  operations_.assign(script_.operations.begin(), script_.operations.end());
  parameters_.assign(script_.bytes.count + 128, 0);
  const auto at = reinterpret_cast<uintptr_t>(parameters_.data());
  aligned_ = parameters_.data() + ((at + 63) / 64 * 64 - at);
  if (script_.bytes.count != 0) memcpy(aligned_, script_.bytes.first, script_.bytes.count);
  for (const Patch& patch : script_.patches) {
    const uint64_t value = globals_[patch.global] + patch.addend;
    if (patch.place == kInMemory) mends_memory_ = true;
    if (patch.place == kTo) operations_[patch.index].to = value;
    if (patch.place == kFrom) operations_[patch.index].from = value;
    if (patch.place == kInParameters)
      memcpy(aligned_ + operations_[patch.index].parameters + patch.offset, &value, sizeof value);
  }
  for (const Attribute& attribute : script_.attributes) {
    CUlaunchAttribute made = {};
    made.id = static_cast<CUlaunchAttributeID>(attribute.id);
    static_assert(sizeof made.value == sizeof attribute.value);
    memcpy(&made.value, attribute.value, sizeof attribute.value);
    attributes_.push_back(made);
  }
  return true;
}

bool Program::make_streams() {
  for (const Stream& stream : script_.streams) {
    CUstream made = nullptr;
    // Never the legacy default stream: that one waits for all others, and recorded events express this where
    // it matters.
    if (!report_->check(driver_,
                        driver_.stream_create(&made, CU_STREAM_NON_BLOCKING | stream.flags, stream.priority),
                        "making a stream"))
      return false;
    streams_.push_back(made);
  }
  for (uint64_t i = 0; i < script_.header->events; ++i) {
    CUevent made = nullptr;
    if (!report_->check(driver_, driver_.event_create(&made, CU_EVENT_DISABLE_TIMING), "making an event"))
      return false;
    events_.push_back(made);
  }
  uint64_t most = 0;
  for (const Operation& one : operations_)
    if (one.kind == kDownload) most = std::max(most, one.width * one.height);
  return most == 0 ||
         report_->check(driver_, driver_.allocate_host(&scratch_, most, 0), "memory for downloads");
}

// The data is a file's pages: copies from there are far slower than the program's were.
bool Program::pin_uploads() {
  uint64_t size = 0;
  for (const Operation& one : operations_)
    if (one.kind == kUpload && one.element != 0 && size <= kMostBytes) size += one.width * one.height;
  if (size > kMostBytes) {
    report_->line("failed -1 memory the uploads are larger than any memory");
    return false;
  }
  void* made = nullptr;
  if (size == 0) return true;
  if (!report_->check(driver_, driver_.allocate_host(&made, size, 0), "pinned memory for uploads"))
    return false;
  pinned_ = static_cast<unsigned char*>(made);
  uint64_t at = 0;
  for (Operation& one : operations_) {
    if (one.kind != kUpload || one.element == 0) continue;
    memcpy(pinned_ + at, script_.data + one.from, one.width * one.height);
    one.from = at;
    at += one.width * one.height;
  }
  return true;
}

bool Program::restore_globals() {
  for (size_t i = 0; i < globals_.size(); ++i) {
    const Global& global = script_.globals[i];
    if (global.before != kNone && globals_[i] != 0 &&
        !report_->check(driver_, driver_.to_device(globals_[i], script_.data + global.before, global.size),
                        script_.text(global.name)))
      return false;
  }
  for (const Patch& patch : script_.patches) {
    if (patch.place != kInMemory && patch.place != kInGlobal) continue;
    const uint64_t value = globals_[patch.global] + patch.addend;
    if (patch.place == kInGlobal && globals_[patch.index] == 0) continue;
    const uint64_t to = patch.offset + (patch.place == kInGlobal ? globals_[patch.index] : 0);
    if (!report_->check(driver_, driver_.to_device(to, &value, sizeof value), "mending a pointer"))
      return false;
  }
  return true;
}

void Program::unmend(uint64_t address, uint64_t size, uint64_t before, unsigned char* contents) const {
  if (before == kNone) return;
  for (const Patch& patch : script_.patches) {
    if (patch.place != kInMemory || patch.offset < address || size < 8 || patch.offset - address > size - 8)
      continue;
    const uint64_t mended = globals_[patch.global] + patch.addend;
    const uint64_t at = patch.offset - address;
    if (memcmp(contents + at, &mended, 8) == 0) memcpy(contents + at, script_.data + before + at, 8);
  }
}

bool Program::compare_globals(int run, unsigned variant) {
  std::vector<unsigned char> found;
  for (size_t i = 0; i < globals_.size(); ++i) {
    const Global& global = script_.globals[i];
    if (global.after == kNone || globals_[i] == 0) continue;
    found.resize(global.size);
    if (!report_->check(driver_, driver_.to_host(found.data(), globals_[i], global.size),
                        script_.text(global.name)))
      return false;
    for (const Patch& patch : script_.patches) {  // a pointer that was mended differs and is right
      if (patch.place != kInGlobal || patch.index != i) continue;
      const uint64_t mended = globals_[patch.global] + patch.addend;
      if (memcmp(&found[patch.offset], &mended, 8) == 0)
        memcpy(&found[patch.offset], script_.data + global.after + patch.offset, 8);
    }
    const unsigned char* const wanted = script_.data + global.after;
    const size_t at = std::mismatch(found.begin(), found.end(), wanted).first - found.begin();
    if (at != found.size()) report_->line("global %d %u %zu %zu", run, variant, i, at);
  }
  return true;
}

bool Program::issue_on(size_t index, unsigned variant, CUstream stream) {
  const Operation& operation = operations_[index];
  if (operation.kind == kLaunch) return launch(index, variant, stream);
  return report_->check(driver_, issue_other(operation, variant, stream), "issuing an operation",
                        static_cast<long long>(index));
}

bool Program::launch(size_t index, unsigned variant, CUstream stream) {
  const Operation& operation = operations_[index];
  CUlaunchConfig config = {};
  config.gridDimX = operation.grid[0], config.gridDimY = operation.grid[1],
  config.gridDimZ = operation.grid[2];
  config.blockDimX = operation.block[0], config.blockDimY = operation.block[1],
  config.blockDimZ = operation.block[2];
  config.sharedMemBytes = operation.shared;
  config.hStream = stream;
  config.attrs = attributes_.data() + operation.attribute;
  config.numAttrs = operation.attributes;
  size_t size = operation.parameter_bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, aligned_ + operation.parameters,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  const Function& function = script_.functions[operation.function];
  const CUfunction code = functions_[variant == 0 ? operation.function : function.replacement];
  return report_->check(driver_, driver_.launch(&config, code, nullptr, extra), script_.text(function.name),
                        static_cast<long long>(index));
}

CUresult Program::issue_other(const Operation& operation, unsigned variant, CUstream stream) {
  switch (operation.kind) {
    case kCopy:
    case kUpload:
    case kDownload:
      return operation.height == 1 ? copy(operation, stream) : copy_rows(operation, stream);
    case kFill:
      return fill(operation, stream);
    case kRecord:
      return driver_.event_record(events_[operation.function], stream);
    case kWait:
      return driver_.stream_wait_event(stream, events_[operation.function], 0);
    case kGraphLaunch:
      return driver_.launch_graph(graphs_[variant][operation.function], stream);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Program::copy(const Operation& operation, CUstream stream) const {
  if (operation.kind == kUpload)
    return driver_.to_device_later(operation.to, upload(operation), operation.width, stream);
  if (operation.kind == kDownload)
    return driver_.to_host_later(scratch_, operation.from, operation.width, stream);
  return driver_.copy_later(operation.to, operation.from, operation.width, stream);
}

// Rows on the host are packed.
CUresult Program::copy_rows(const Operation& operation, CUstream stream) const {
  CUDA_MEMCPY2D plan = {};
  plan.srcMemoryType = operation.kind == kUpload ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  plan.dstMemoryType = operation.kind == kDownload ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  plan.srcDevice = operation.from, plan.dstDevice = operation.to;
  plan.srcPitch = operation.from_pitch, plan.dstPitch = operation.to_pitch;
  if (operation.kind == kUpload) plan.srcHost = upload(operation), plan.srcPitch = operation.width;
  if (operation.kind == kDownload) plan.dstHost = scratch_, plan.dstPitch = operation.width;
  plan.WidthInBytes = operation.width, plan.Height = operation.height;
  return driver_.copy_2d_later(&plan, stream);
}

CUresult Program::fill(const Operation& operation, CUstream stream) const {
  const auto value = static_cast<unsigned>(operation.from);
  const uint64_t to = operation.to, pitch = operation.to_pitch, width = operation.width,
                 height = operation.height;
  if (operation.element == 1)
    return driver_.fill_1(to, pitch, static_cast<unsigned char>(value), width, height, stream);
  if (operation.element == 2)
    return driver_.fill_2(to, pitch, static_cast<unsigned short>(value), width, height, stream);
  return driver_.fill_4(to, pitch, value, width, height, stream);
}

bool Program::make_graphs(unsigned variant) {
  for (size_t i = graphs_[variant].size(); i < script_.graphs.count; ++i) {
    CUgraph graph = nullptr;
    CUgraphExec ready = nullptr;
    const CUstream stream = streams_[0];
    if (!report_->check(driver_, driver_.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                        "making a graph") ||
        !capture_nodes(script_.graphs[i], variant, stream) ||
        !report_->check(driver_, driver_.end_capture(stream, &graph), "making a graph") ||
        !report_->check(driver_, driver_.instantiate(&ready, graph, 0), "making a graph"))
      return false;
    graphs_[variant].push_back(ready);
  }
  return true;
}

// Each node is captured on one stream, whose dependencies are first set to the nodes that it waits for.
bool Program::capture_nodes(const Graph& graph, unsigned variant, CUstream stream) {
  std::vector<std::vector<CUgraphNode>> made(
      graph.count);  // an empty node represents the nodes that it waits for
  std::vector<CUgraphNode> all;
  size_t waits = 0;
  for (uint64_t i = 0; i < graph.count; ++i) {
    const Operation& node = operations_[graph.first + i];
    std::vector<CUgraphNode> after;
    for (uint32_t k = 0; k < node.after_count; ++k) {
      const auto& earlier = made[script_.edges[node.after + k]];
      if ((waits += earlier.size()) > kMostWaits) {
        report_->line("failed -1 graph its nodes wait for each other more often than a replay can take");
        return false;
      }
      after.insert(after.end(), earlier.begin(), earlier.end());
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (node.kind == kEmpty) {
      made[i] = after;
      continue;
    }
    CUstreamCaptureStatus status;
    const CUgraphNode* last = nullptr;
    size_t count = 0;
    if (!report_->check(
            driver_,
            driver_.capture_after(stream, after.data(), after.size(), CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            "making a graph") ||
        !issue_on(graph.first + i, variant, stream) ||
        !report_->check(driver_, driver_.capture_info(stream, &status, nullptr, nullptr, &last, &count),
                        "making a graph"))
      return false;
    made[i].assign(last, last + count);
    all.insert(all.end(), last, last + count);
  }
  return report_->check(
      driver_, driver_.capture_after(stream, all.data(), all.size(), CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      "making a graph");
}

}  // namespace warpsight::replay
