// CUPTI's resource callbacks: contexts, streams, modules, graphs and their nodes.
#pragma once

#include <cupti.h>

namespace warpsight {

// Callback ids of the resource domain that the recorder enables; a CUPTI that lacks one refuses it
// harmlessly.
struct ResourceCallbacks {
  const CUpti_CallbackIdResource* ids;
  size_t count;
};
ResourceCallbacks resource_callbacks();

void on_resource(CUpti_CallbackId cbid, const void* data);

}  // namespace warpsight
