// How graph launches are recorded: every node's kernel, or one record for the whole launch.
//
// CUPTI knows two levels, and GRAPH_TRACE replaces the records of nodes while it is on. `node` never switches
// it on, `graph` always. `automatic` records nodes throughout; with WARPSIGHT_GRAPH_AUTO=switch it records
// the first launches of each graph and every 50th after with their nodes, the ones between as a whole. The
// level is changed from the launching thread, never more often than kLeastBetweenSwitchesNs, because frequent
// switching was seen to end programs.
#pragma once

#include <cstdint>

namespace warpsight {

// Before recording begins; true when GRAPH_TRACE is to be enabled from the start.
bool begin_graph_level();

// At the entry of cudaGraphLaunch and its kin, with the call's parameters.
void graph_launch_starts(const void* params);

// Switches GRAPH_TRACE off when it is on; a note says how many launches were not expanded.
void end_graph_level();

}  // namespace warpsight
