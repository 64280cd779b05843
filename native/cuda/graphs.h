// CUDA graphs: which call of the program made each node, so that a kernel of a replay finds its stack.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "cuda/addresses.h"
#include "cuda/api_rules.h"

namespace warpsight {

void on_graph(CUpti_CallbackId cbid, const CUpti_GraphData& graph);

// A call of CallGroup::graph succeeded. `handle` is the node or executable graph named by its arguments;
// meanwhile `nodes` copy and fill nodes (0, 1, several) were reported, of which `node` is the last.
void on_graph_call(const ApiRule& rule, uint64_t handle, Addresses addresses, uint32_t nodes, uint64_t node);

// Whether any graph was made since the library was loaded: some CUPTI releases cannot detach safely then.
bool graphs_seen();

}  // namespace warpsight
