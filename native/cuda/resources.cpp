#include "cuda/resources.h"

#include "cuda/counters.h"
#include "cuda/graphs.h"
#include "cuda/machine.h"
#include "cuda/modules.h"

namespace warpsight {
namespace {

constexpr CUpti_CallbackIdResource kIds[] = {
    CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
    CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_STREAM_CREATED,
    CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_MODULE_LOADED,
    CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
    CUPTI_CBID_RESOURCE_GRAPH_CREATED,
    CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_GRAPH_CLONED,
    CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
    CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED,
    CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
    CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
    CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED,
    CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS,
};

}  // namespace

ResourceCallbacks resource_callbacks() { return {kIds, sizeof kIds / sizeof kIds[0]}; }

void on_resource(CUpti_CallbackId cbid, const void* data) {
  const auto& resource = *static_cast<const CUpti_ResourceData*>(data);
  const void* detail = resource.resourceDescriptor;
  switch (cbid) {
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
      context_created(resource.context);
      return begin_counters_of(resource.context);
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
      context_ends();
      return end_counters_of(resource.context);
    case CUPTI_CBID_RESOURCE_STREAM_CREATED:
      return stream_created(resource.context, resource.resourceHandle.stream);
    case CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING:
      return stream_destroyed(resource.resourceHandle.stream);
    case CUPTI_CBID_RESOURCE_MODULE_LOADED:
      if (detail != nullptr)
        module_loaded(resource.context, *static_cast<const CUpti_ModuleResourceData*>(detail));
      return;
    case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
      if (detail != nullptr)
        module_unloading(resource.context, *static_cast<const CUpti_ModuleResourceData*>(detail));
      return;
    default:
      if (detail != nullptr) on_graph(cbid, *static_cast<const CUpti_GraphData*>(detail));
  }
}

}  // namespace warpsight
