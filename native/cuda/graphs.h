// CUDA graphs: which call of the program made each node, so that a kernel of a replay finds its stack.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

void on_graph(CUpti_CallbackId cbid, const CUpti_GraphData& graph);

// Whether any graph was made since the library was loaded: some CUPTI releases cannot detach safely then.
bool graphs_seen();

}  // namespace warpsight
