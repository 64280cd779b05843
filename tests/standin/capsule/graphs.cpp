// Graphs of the driver: their nodes run one after the other when a graph is launched.
#include "driver.h"

using namespace standin;

EXPORT CUresult cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue*) {
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode, CUDA_MEMCPY3D*) { return CUDA_SUCCESS; }
EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph) {
  return *found = original, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph graph) { return *clone = graph, CUDA_SUCCESS; }
EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(graph)->nodes;
  *count = all.size();
  for (size_t i = 0; nodes != nullptr && i < all.size(); ++i)
    nodes[i] = reinterpret_cast<CUgraphNode>(all[i]);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return *type = reinterpret_cast<Node*>(node)->type, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* p) {
  return *p = reinterpret_cast<Node*>(node)->kernel, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* p) {
  return reinterpret_cast<Node*>(node)->kernel = *p, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p) {
  return *p = reinterpret_cast<Node*>(node)->set, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  Node* const after = reinterpret_cast<Node*>(node)->after;
  *count = after != nullptr ? 1 : 0;
  if (nodes != nullptr && after != nullptr) *nodes = reinterpret_cast<CUgraphNode>(after);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  CALL(cuGraphInstantiateWithFlags, exec, graph, flags);
  *exec = reinterpret_cast<CUgraphExec>(graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CALL(cuGraphLaunch, exec, stream);
  for (Node* node : reinterpret_cast<Graph*>(exec)->nodes) {
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) run(node->kernel.func, node->kernel.kernelParams);
    if (node->type == CU_GRAPH_NODE_TYPE_MEMSET)
      memset(reinterpret_cast<void*>(node->set.dst), static_cast<int>(node->set.value), node->set.width);
  }
  return CUDA_SUCCESS;
}
