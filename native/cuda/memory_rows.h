// Allocations, frees and memory pools from the calls themselves.
#pragma once

#include <cupti.h>

#include "cuda/api_rules.h"
#include "ring/ring.h"

namespace warpsight {

// Writes the Memory row of a finished call of CallGroup::memory that succeeded, when it has one.
void write_memory_row(const ApiRule& rule, const CUpti_CallbackData& call, const Api& row);

}  // namespace warpsight
