// Record kinds that --trace asks for beside the default set, and what becomes of them.
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

// The activity kinds for settings().trace; the default set for an empty list. Names beside the CUPTI ones
// select rows that need no activity kind ("launch", "api", "nvtx" …) and are accepted silently.
KindSelection select_kinds(const std::vector<std::string>& names);

// Switches the unified-memory counters on for this process. The reason when CUPTI cannot give them, else "".
std::string configure_unified_memory();

// Asks for records of graphs that kernels launch, which come beside those of whole graphs alone. Likewise.
std::string enable_device_graphs(bool graph_level);

// Rows for a record of an extra kind; false when the kind is unknown.
bool write_extra_record(const CUpti_Activity* record);

}  // namespace warpsight
