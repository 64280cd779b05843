#include "cuda/node_types.h"

#include <cuda_runtime_api.h>

#include <cstring>

namespace warpsight {
namespace {

struct NamedType {
  const char* part;  // of the function's name
  CUgraphNodeType type;
};

// The functions that add nodes, and captured ones of groups that hold several kinds.
constexpr NamedType kNamed[] = {
    {"AddKernelNode", CU_GRAPH_NODE_TYPE_KERNEL},
    {"AddMemcpyNode", CU_GRAPH_NODE_TYPE_MEMCPY},
    {"AddMemsetNode", CU_GRAPH_NODE_TYPE_MEMSET},
    {"AddHostNode", CU_GRAPH_NODE_TYPE_HOST},
    {"AddChildGraphNode", CU_GRAPH_NODE_TYPE_GRAPH},
    {"AddEmptyNode", CU_GRAPH_NODE_TYPE_EMPTY},
    {"AddEventWaitNode", CU_GRAPH_NODE_TYPE_WAIT_EVENT},
    {"AddEventRecordNode", CU_GRAPH_NODE_TYPE_EVENT_RECORD},
    {"AddExternalSemaphoresSignalNode", CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL},
    {"AddExternalSemaphoresWaitNode", CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT},
    {"AddMemAllocNode", CU_GRAPH_NODE_TYPE_MEM_ALLOC},
    {"AddMemFreeNode", CU_GRAPH_NODE_TYPE_MEM_FREE},
    {"AddBatchMemOpNode", CU_GRAPH_NODE_TYPE_BATCH_MEM_OP},
    {"LaunchHostFunc", CU_GRAPH_NODE_TYPE_HOST},
    {"StreamWaitEvent", CU_GRAPH_NODE_TYPE_WAIT_EVENT},
    {"EventRecord", CU_GRAPH_NODE_TYPE_EVENT_RECORD},
    {"Malloc", CU_GRAPH_NODE_TYPE_MEM_ALLOC},
    {"MemAlloc", CU_GRAPH_NODE_TYPE_MEM_ALLOC},
    {"Free", CU_GRAPH_NODE_TYPE_MEM_FREE},
};

// Both libraries number the types alike, and their parameters begin with it.
template <class Params>
uint32_t stated(const void* params) {
  const auto* const node = static_cast<const Params*>(params)->nodeParams;
  return node != nullptr ? static_cast<uint32_t>(node->type) : kUnknownNode;
}

uint32_t stated_type(uint8_t domain, uint32_t cbid, const void* params) {
  if (params == nullptr) return kUnknownNode;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    if (cbid == CUPTI_RUNTIME_TRACE_CBID_cudaGraphAddNode_v12030)
      return stated<cudaGraphAddNode_v12030_params>(params);
    return kUnknownNode;
  }
  if (cbid == CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode) return stated<cuGraphAddNode_params>(params);
  if (cbid == CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode_v2) return stated<cuGraphAddNode_v2_params>(params);
  return kUnknownNode;
}

}  // namespace

uint32_t type_made_by(uint8_t domain, uint32_t cbid, const void* params) {
  const ApiRule& rule = rule_of(domain, cbid);
  switch (rule.group) {
    case CallGroup::launch:
      return rule.form == LaunchForm::graph ? CU_GRAPH_NODE_TYPE_GRAPH : CU_GRAPH_NODE_TYPE_KERNEL;
    case CallGroup::copy:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case CallGroup::set:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    default:
      break;
  }
  for (const NamedType& named : kNamed) {
    if (strstr(rule.name, named.part) != nullptr) return named.type;
  }
  return stated_type(domain, cbid, params);
}

}  // namespace warpsight
