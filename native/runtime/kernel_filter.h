// settings().kernels: which kernels get rows. A pattern matches the mangled or the demangled name, as in
// fnmatch(3).
#pragma once

#include <cstdint>

namespace warpsight {

// True when there are patterns at all; checked first on the launch path.
bool kernels_filtered();

// Whether the kernel of this name is recorded. The decision is remembered by the name's id; only the first
// call for a name demangles and matches.
bool kernel_wanted(uint32_t name_id, const char* name);

// A loss row (a note) of `source`, the recorder's name, for every pattern that has matched nothing so far.
void report_unmatched_patterns(const char* source);

}  // namespace warpsight
