// The kind of graph node that a call creates. CUPTI 13.0 leaves nodeType 0 ("kernel") in its callbacks for
// nodes of every kind, so it is derived from the call.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "cuda/api_rules.h"

namespace warpsight {

constexpr uint32_t kUnknownNode = 0xff;

// CUgraphNodeType of the node that this call adds to a graph or that its capture becomes; kUnknownNode for
// calls that create no node or have no rule. `params` are the call's arguments.
uint32_t type_made_by(uint8_t domain, uint32_t cbid, const void* params);

}  // namespace warpsight
