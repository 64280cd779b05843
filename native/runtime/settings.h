// What only the runtime itself wants to know about the settings.
#pragma once

#include "runtime/runtime.h"

namespace warpsight {

// One sentence for each WARPSIGHT_* value that was not understood.
const std::vector<std::string>& settings_complaints();

// The effective settings as a JSON object, for the Process row.
std::string settings_json();

}  // namespace warpsight
