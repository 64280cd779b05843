// Where libmcpti is: already in the process, next to the runtime, in the toolkit, on the loader's path.
#pragma once

#include <string>

namespace warpsight {

struct FoundMcpti {
  void* handle = nullptr;
  std::string path;
  std::string why;  // if handle is null: what was tried and what to do
};

// MACA's runtime if it is in the process; nullptr when it is not, nothing is loaded for it.
void* loaded_maca_runtime();

FoundMcpti find_mcpti(void* runtime);

}  // namespace warpsight
