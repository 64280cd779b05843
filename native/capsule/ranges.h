// The ranges of the program that a request may name: NVTX's, and those of warpsight's Python functions.
#pragma once

namespace warpsight {

// A range of this name begins or ends on this thread; ranges that were not requested have no effect.
void named_range_begins(const char* name);
void named_range_ends(const char* name);

}  // namespace warpsight
