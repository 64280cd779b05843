// How graph launches are recorded: every node's kernel, or one record for the whole launch. CUPTI has two
// levels, and GRAPH_TRACE replaces the records of nodes while it is on. `node` never switches it on, `graph`
// always, and `automatic` is `node`: changing the level while a program runs crashes it or gains nothing
// (docs/explanation/overhead.md).
#pragma once

namespace warpsight {

// Before recording begins; true if GRAPH_TRACE should be enabled.
bool begin_graph_level();

// At the entry of cudaGraphLaunch and its kin.
void graph_launch_starts();

// At the end of recording; adds a note with the number of launches recorded as a whole.
void end_graph_level();

}  // namespace warpsight
