#include "capsule/graphs.h"

#include <algorithm>

#include "capsule/driver.h"

namespace warpsight {
namespace {

#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name

// The work of a node; "" or why a capsule cannot hold it.
std::string node_work(CUgraphNode node, Work* work) {
  CUgraphNodeType type;
  CUresult result = cu().cuGraphNodeGetType(node, &type);
  if (result != CUDA_SUCCESS) return failure("asking for a node's type", result);
  if (type == CU_GRAPH_NODE_TYPE_EMPTY) return "";
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS_v2 p = {};
    result = cu().kernel_node(node, &p);
    work->kind = WorkKind::launch;
    work->function = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
    const uint32_t grid[] = {p.gridDimX, p.gridDimY, p.gridDimZ};
    const uint32_t block[] = {p.blockDimX, p.blockDimY, p.blockDimZ};
    for (int i = 0; i < 3; ++i) work->grid[i] = grid[i], work->block[i] = block[i];
    work->shared = p.sharedMemBytes, work->params = p.kernelParams, work->extra = p.extra;
  } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    CUDA_MEMCPY3D p = {};
    result = cu().cuGraphMemcpyNodeGetParams(node, &p);
    *work = copy_of(p);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS p = {};
    result = cu().cuGraphMemsetNodeGetParams(node, &p);
    *work = set_of(p);
  } else {
    return "it has a node of type " + std::to_string(type) +
           " (only kernels, copies and fills can be cut out)";
  }
  if (work->kind == WorkKind::unsupported) return "it has a copy of arrays or of three dimensions";
  return failure("asking for a node's parameters", result);
}

std::vector<CUgraphNode> dependencies_of(CUgraphNode node) {
  size_t count = 0;
  if (cu().dependencies(node, nullptr, &count) != CUDA_SUCCESS) return {};
  std::vector<CUgraphNode> found(count);
  if (count != 0) cu().dependencies(node, found.data(), &count);
  return found;
}

}  // namespace

const std::vector<uint32_t>& Graphs::calls() {
  static const auto& all = *new std::vector<uint32_t>{
      // never destroyed: programs call us at their end
      CBID(cuGraphInstantiate),
      CBID(cuGraphInstantiate_v2),
      CBID(cuGraphInstantiateWithFlags),
      CBID(cuGraphInstantiateWithParams),
      CBID(cuGraphInstantiateWithParams_ptsz),
      CBID(cuGraphExecDestroy),
      CBID(cuGraphExecUpdate),
      CBID(cuGraphExecUpdate_v2),
      CBID(cuGraphExecKernelNodeSetParams),
      CBID(cuGraphExecKernelNodeSetParams_v2),
      CBID(cuGraphExecMemcpyNodeSetParams),
      CBID(cuGraphExecMemsetNodeSetParams),
      CBID(cuGraphExecNodeSetParams),
      CBID(cuGraphExecHostNodeSetParams),
      CBID(cuGraphExecChildGraphNodeSetParams),
  };
  return all;
}

void Graphs::on_exit(uint32_t cbid, const void* params, const char* function) {
  // All of these begin with the executable graph, or with a pointer to it and the graph.
  const auto* handles = static_cast<void* const*>(params);
  switch (cbid) {
    case CBID(cuGraphInstantiate):
    case CBID(cuGraphInstantiate_v2):
    case CBID(cuGraphInstantiateWithFlags):
    case CBID(cuGraphInstantiateWithParams):
    case CBID(cuGraphInstantiateWithParams_ptsz):
      return keep(*static_cast<CUgraphExec*>(handles[0]), static_cast<CUgraph>(handles[1]));
    case CBID(cuGraphExecUpdate):
    case CBID(cuGraphExecUpdate_v2):
      return keep(static_cast<CUgraphExec>(handles[0]), static_cast<CUgraph>(handles[1]));
    case CBID(cuGraphExecKernelNodeSetParams_v2): {
      const auto& p = *static_cast<const cuGraphExecKernelNodeSetParams_v2_params*>(params);
      OwnCalls own;
      std::lock_guard<std::mutex> lock(mutex_);
      Kept& kept = kept_[p.hGraphExec];
      CUgraphNode node = nullptr;
      if (kept.clone == nullptr || cu().cuGraphNodeFindInClone(&node, p.hNode, kept.clone) != CUDA_SUCCESS ||
          cu().set_kernel_node(node, p.nodeParams) != CUDA_SUCCESS)
        kept.changed_by = function;
      return;
    }
    case CBID(cuGraphExecDestroy): {
      OwnCalls own;
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = kept_.find(static_cast<CUgraphExec>(handles[0]));
      if (found == kept_.end()) return;
      if (found->second.clone != nullptr) cu().cuGraphDestroy(found->second.clone);
      kept_.erase(found);
      return;
    }
    default:
      return change(static_cast<CUgraphExec>(handles[0]), function);
  }
}

bool Graphs::launches_wanted(CUgraph graph) const {
  size_t count = 0;
  if (cu().cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> all(count);
  if (count == 0 || cu().cuGraphGetNodes(graph, all.data(), &count) != CUDA_SUCCESS) return false;
  return std::any_of(all.begin(), all.end(), [this](CUgraphNode node) {
    Work work;
    return node_work(node, &work).empty() && work.kind == WorkKind::launch && kernel_wanted_(work.function);
  });
}

bool Graphs::wanted(CUgraphExec graph) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto kept = kept_.find(graph);
  return kept != kept_.end() && kept->second.wanted;
}

void Graphs::keep(CUgraphExec exec, CUgraph graph) {
  OwnCalls own;
  Kept made;
  if (cu().cuGraphClone(&made.clone, graph) != CUDA_SUCCESS) made.clone = nullptr;
  made.wanted = launches_wanted(graph);
  std::lock_guard<std::mutex> lock(mutex_);
  Kept& kept = kept_[exec];
  if (kept.clone != nullptr) cu().cuGraphDestroy(kept.clone);
  kept = made;
}

void Graphs::change(CUgraphExec exec, const char* function) {
  std::lock_guard<std::mutex> lock(mutex_);
  kept_[exec].changed_by = function;
}

std::string Graphs::nodes(CUgraphExec graph, std::vector<GraphNode>* nodes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto kept = kept_.find(graph);
  if (kept == kept_.end()) return "the graph was made before recording began";
  if (!kept->second.changed_by.empty()) return "the graph was changed by " + kept->second.changed_by;
  if (kept->second.clone == nullptr)
    return "the graph holds nodes that cannot be cloned (memory or conditional nodes)";
  size_t count = 0;
  CUresult result = cu().cuGraphGetNodes(kept->second.clone, nullptr, &count);
  std::vector<CUgraphNode> all(count);
  if (result == CUDA_SUCCESS && count != 0)
    result = cu().cuGraphGetNodes(kept->second.clone, all.data(), &count);
  if (result != CUDA_SUCCESS) return failure("asking for the graph's nodes", result);
  std::map<CUgraphNode, size_t> places;
  std::map<CUgraphNode, std::vector<CUgraphNode>> waiting;
  for (CUgraphNode node : all) waiting[node] = dependencies_of(node);
  while (nodes->size() < all.size()) {
    const size_t before = nodes->size();
    for (CUgraphNode node : all) {
      const auto& needed = waiting[node];
      const auto placed = [&places](CUgraphNode other) { return places.count(other) != 0; };
      if (placed(node) || !std::all_of(needed.begin(), needed.end(), placed)) continue;
      GraphNode made;
      made.node = node;
      for (CUgraphNode other : needed) made.after.push_back(places[other]);
      const std::string why = node_work(node, &made.work);
      if (!why.empty()) return "the graph cannot be cut out: " + why;
      places[node] = nodes->size();
      nodes->push_back(made);
    }
    if (nodes->size() == before) return "the graph's order cannot be told";
  }
  return "";
}

}  // namespace warpsight
