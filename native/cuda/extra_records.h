// Record kinds that --trace requests in addition to the default set, and how they are handled.
#pragma once

#include <cupti.h>

#include <string>
#include <vector>

namespace warpsight {

struct KindSelection {
  std::vector<CUpti_ActivityKind> kinds;
  std::vector<std::string> refused;  // names that no kind recorded here answers to
  bool unified_memory = false, device_graphs = false;
};

// The activity kinds for settings().trace; the default set for an empty list. Names other than CUPTI's select
// rows that need no activity kind ("launch", "api", "nvtx" …) and are accepted silently.
KindSelection select_kinds(const std::vector<std::string>& names);

// Switches the unified-memory counters on for this process. Returns the reason if CUPTI cannot provide them,
// otherwise "".
std::string configure_unified_memory();

// Requests records of graphs launched by kernels, which CUPTI only provides along with those of whole graphs.
// Returns the same.
std::string enable_device_graphs(bool graph_level);

// Rows for a record of an extra kind; false when the kind is unknown.
bool write_extra_record(const CUpti_Activity* record);

}  // namespace warpsight
