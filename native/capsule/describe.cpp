// The recorder's rows for the work in its range.
#include <algorithm>
#include <cstring>

#include "capsule/recorder.h"

namespace warpsight {
namespace {

// Attributes of launches that mean the same in another process.
bool portable(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return true;
    default:
      return static_cast<int>(id) == 11 || static_cast<int>(id) == 14;  // preferred cluster, carveout
  }
}

std::string attribute(CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
  static_assert(sizeof value == 64, "as a capsule holds it");
  return Json("attribute").integer("id", id).bytes("value", &value, sizeof value).done();
}

std::string dimensions(const uint32_t (&extent)[3]) {
  return "[" + std::to_string(extent[0]) + "," + std::to_string(extent[1]) + "," + std::to_string(extent[2]) +
         "]";
}

const char* name_of(WorkKind kind) {
  static const char* const names[] = {"",       "launch", "copy",        "set",         "graph",
                                      "record", "wait",   "synchronize", "synchronize", "synchronize"};
  return names[static_cast<int>(kind)];
}

}  // namespace

std::string CapsuleRecorder::describe_device(CUcontext) {
  CUdevice device = 0;
  if (const CUresult result = cu().cuCtxGetDevice(&device)) return failure("asking for the GPU", result);
  char name[256] = {};
  int major = 0, minor = 0, processors = 0, version = 0;
  size_t memory = 0;
  cu().cuDeviceGetName(name, sizeof name - 1, device);
  cu().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cu().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  cu().cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  cu().cuDriverGetVersion(&version);
  cu().total_memory(&memory, device);
  CUuuid uuid = {};
  cu().device_uuid(&uuid, device);
  std::string limits;
  for (const CUlimit limit : {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE}) {
    size_t value = 0;
    if (cu().cuCtxGetLimit(&value, limit) == CUDA_SUCCESS)
      limits += (limits.empty() ? "\"" : ",\"") + std::to_string(limit) + "\":" + std::to_string(value);
  }
  output_.log(Json("device")
                  .text("name", name)
                  .raw("compute_capability", "[" + std::to_string(major) + "," + std::to_string(minor) + "]")
                  .integer("multiprocessors", processors)
                  .number("memory_bytes", memory)
                  .integer("driver", version)
                  .bytes("uuid", uuid.bytes, sizeof uuid.bytes)
                  .raw("limits", "{" + limits + "}")
                  .number("time", begin_ns_)
                  .done());
  return "";
}

std::string CapsuleRecorder::describe(const Work& work, const Kernel* kernel, CUgraphNode node, Json* json,
                                      Addresses* addresses) {
  json->text("type", name_of(work.kind));
  if (work.kind != WorkKind::event_wait && work.kind != WorkKind::context_wait)
    json->integer("stream", stream_number(work.stream));
  if (work.kind == WorkKind::record || work.kind == WorkKind::wait || work.kind == WorkKind::event_wait)
    json->integer("event", event_number(work.event));
  if (work.kind == WorkKind::launch) return describe_launch(work, kernel, node, json, addresses);
  if (work.kind == WorkKind::copy) return describe_copy(work, json, addresses);
  if (work.kind == WorkKind::graph) return describe_graph(work, json, addresses);
  if (work.kind == WorkKind::set) {
    json->number("destination", work.destination).number("value", work.value).number("element", work.element);
    json->number("count", work.bytes / work.element)
        .number("rows", work.rows)
        .number("pitch", work.destination_pitch);
    addresses->push_back({work.destination, "fill"});
  }
  return "";
}

std::string CapsuleRecorder::describe_launch(const Work& work, const Kernel* kernel, CUgraphNode node,
                                             Json* json, Addresses* addresses) {
  if (kernel == nullptr || kernel->function == nullptr)
    return "the driver does not tell which kernel was launched";
  if (textures_.load(std::memory_order_relaxed))
    return "the program uses textures or surfaces, which cannot be cut out (kernel " + kernel->name + ")";
  int function = 0;
  const std::string why = function_number(*kernel, &function);
  if (!why.empty()) return why;
  std::vector<char> packed;
  if (!kernel->pack(work.params, work.extra, &packed))
    return "the parameters of kernel " + kernel->name + " are not given in full";
  for (size_t at = 0; at + sizeof(uint64_t) <= packed.size(); at += 4) {
    uint64_t value;
    memcpy(&value, packed.data() + at, sizeof value);
    if (!looked_at_.insert(value).second) continue;
    const auto& params = kernel->params;
    const bool whole =
        std::find(params.begin(), params.end(), std::make_pair(at, sizeof value)) != params.end();
    addresses->push_back({value, "parameter at " + std::to_string(at) + " of " + kernel->name, whole});
  }
  json->integer("function", function).raw("grid", dimensions(work.grid)).raw("block", dimensions(work.block));
  json->number("shared_bytes", work.shared).bytes("parameters", packed.data(), packed.size());
  json->raw("attributes", attributes(work, node));
  return "";
}

std::string CapsuleRecorder::attributes(const Work& work, CUgraphNode node) {
  std::string found;
  const auto add = [&found](CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    found += (found.empty() ? "" : ",") + attribute(id, value);
  };
  for (uint32_t i = 0; i < work.attribute_count; ++i) {
    const CUlaunchAttribute& given = work.attributes[i];
    if (given.id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    if (portable(given.id))
      add(given.id, given.value);
    else
      incomplete("launch attribute " + std::to_string(given.id) +
                 " was left out: it names something of the recorded process");
  }
  if (work.cooperative) {
    CUlaunchAttributeValue value = {};
    value.cooperative = 1;
    add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value);
  }
  for (const auto id : {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                        CU_LAUNCH_ATTRIBUTE_PRIORITY}) {
    CUlaunchAttributeValue value = {};
    const CUlaunchAttributeValue none = {};
    if (node != nullptr && cu().cuGraphKernelNodeGetAttribute(node, id, &value) == CUDA_SUCCESS &&
        memcmp(&value, &none, sizeof value) != 0)
      add(id, value);
  }
  return "[" + found + "]";
}

std::string CapsuleRecorder::describe_copy(Work work, Json* json, Addresses* addresses) {
  if (work.unknown_sides) {
    Block block;
    work.source_host = !memory_.find(work.source, &block) && !tracked(work.source);
    work.destination_host = !memory_.find(work.destination, &block) && !tracked(work.destination);
  }
  if (work.source_host && work.destination_host) return "a copy from the host to the host is in the range";
  json->number("bytes", work.bytes).number("rows", work.rows);
  Block pinned;  // the program's buffer on the host, where it is
  if ((work.source_host && memory_.find(work.source, &pinned)) ||
      (work.destination_host && memory_.find(work.destination, &pinned)))
    json->raw("pinned", "true");
  if (!work.destination_host) {
    json->number("destination", work.destination).number("destination_pitch", work.destination_pitch);
    addresses->push_back({work.destination, "copy"});
  }
  if (!work.source_host) {
    json->number("source", work.source).number("source_pitch", work.source_pitch);
    addresses->push_back({work.source, "copy"});
  } else if (request_.contents) {
    const uint64_t offset = output_.reserve(work.bytes * work.rows);
    extents_.emplace_back(offset, work.bytes * work.rows);
    const std::string why =
        snapshots_.take_rows(work.source, work.bytes, work.rows, work.source_pitch, offset);
    if (!why.empty()) return why;
    json->number("host", offset);
  }
  return "";
}

std::string CapsuleRecorder::describe_graph(const Work& work, Json* json, Addresses* addresses) {
  std::vector<GraphNode> nodes;
  std::string why = graphs_.nodes(work.graph, &nodes);
  std::string list;
  for (const GraphNode& node : nodes) {
    if (!why.empty()) return why;
    std::string after;
    for (size_t earlier : node.after) after += (after.empty() ? "" : ",") + std::to_string(earlier);
    Json described("node");
    described.raw("after", "[" + after + "]");
    if (node.work.kind != WorkKind::none) {
      const Kernel* const kernel =
          node.work.kind == WorkKind::launch ? modules_.kernel(node.work.function, nullptr) : nullptr;
      Json inner("work");
      why = describe(node.work, kernel, node.node, &inner, addresses);
      described.raw("work", inner.done());
    }
    list += (list.empty() ? "" : ",") + described.done();
  }
  if (!why.empty()) return why;
  output_.log(Json("graph").raw("nodes", "[" + list + "]").done());
  json->integer("graph", graph_count_++);
  return "";
}

std::string CapsuleRecorder::function_number(const Kernel& kernel, int* number) {
  const auto known = functions_.find(&kernel);
  if (known != functions_.end()) return *number = known->second, "";
  const uint64_t begin = time_ns();
  cu().cuFuncLoad(kernel.function);  // the launch would, within the time that is measured of it
  held_ns_ -= time_ns() - begin;
  int module = 0;
  const std::string why = module_number(kernel, &module);
  if (!why.empty()) return why;
  std::string params, attributes;
  for (const auto& param : kernel.params)
    params += (params.empty() ? "[" : ",[") + std::to_string(param.first) + "," +
              std::to_string(param.second) + "]";
  for (const int id :  // those that a program sets
       {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
        CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE}) {
    const auto attribute = static_cast<CUfunction_attribute>(id);
    int value = 0, of_kernel = 0;
    CUdevice device = 0;
    if (cu().cuFuncGetAttribute(&value, attribute, kernel.function) != CUDA_SUCCESS) continue;
    if (id == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && kernel.kernel != nullptr &&
        cu().cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        cu().cuKernelGetAttribute(&of_kernel, attribute, kernel.kernel, device) == CUDA_SUCCESS)
      value = std::max(value, of_kernel);
    attributes += (attributes.empty() ? "\"" : ",\"") + std::to_string(id) + "\":" + std::to_string(value);
  }
  *number = static_cast<int>(functions_.size());
  functions_[&kernel] = *number;
  output_.log(Json("function")
                  .integer("module", module)
                  .text("name", kernel.name)
                  .raw("parameters", "[" + params + "]")
                  .raw("attributes", "{" + attributes + "}")
                  .done());
  return "";
}

std::string CapsuleRecorder::module_number(const Kernel& kernel, int* number) {
  std::string why;
  const int image = modules_.image_of(kernel, context_, &why);
  if (image < 0) return why;
  const auto known = modules_seen_.find(image);
  if (known != modules_seen_.end()) return *number = known->second, "";
  *number = static_cast<int>(modules_seen_.size());
  modules_seen_[image] = *number;
  const auto extent = modules_.extent(image);
  const auto ptx = modules_.ptx(image);
  Json json("module");
  json.number("offset", extent.first).number("size", extent.second);
  if (ptx.second != 0)
    json.raw("ptx", "[" + std::to_string(ptx.first) + "," + std::to_string(ptx.second) + "]");
  output_.log(json.done());
  for (const CubinVariable& variable : modules_.variables(image)) {
    CUdeviceptr address = 0;
    size_t size = 0;
    if (kernel.module == nullptr ||
        cu().module_global(&address, &size, kernel.module, variable.name.c_str()) != CUDA_SUCCESS ||
        size == 0) {
      incomplete("variable " + variable.name +
                 " of a module: the driver does not tell where it is; it keeps its initial contents");
      continue;
    }
    const int global = static_cast<int>(globals_.size());
    globals_.push_back({address, size, global, *number});
    fresh_globals_.push_back(globals_.back());
    output_.log(Json("global")
                    .integer("module", *number)
                    .text("name", variable.name)
                    .number("address", address)
                    .number("size", size)
                    .raw("constant", variable.constant ? "true" : "false")
                    .done());
  }
  return "";
}

int CapsuleRecorder::stream_number(CUstream stream) {
  const auto known = streams_.find(stream);
  if (known != streams_.end()) return known->second;
  const int number = static_cast<int>(streams_.size());
  streams_[stream] = number;
  unsigned flags = 0;
  int priority = 0;
  cu().cuStreamGetFlags(stream, &flags);
  cu().cuStreamGetPriority(stream, &priority);
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  output_.log(Json("stream")
                  .raw("default", is_default ? "true" : "false")
                  .number("flags", flags)
                  .integer("priority", priority)
                  .done());
  return number;
}

int CapsuleRecorder::event_number(CUevent event) {
  return events_.emplace(event, static_cast<int>(events_.size())).first->second;
}

bool CapsuleRecorder::tracked(uint64_t address) const {
  return std::any_of(globals_.begin(), globals_.end(), [address](const HeldGlobal& held) {
    return held.address <= address && address < held.address + held.size;
  });
}

}  // namespace warpsight
