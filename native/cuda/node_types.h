// What kind of graph node a call makes. CUPTI 13.0 leaves nodeType 0 ("kernel") in its callbacks for nodes of
// every kind, so the call that makes a node has to tell.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "cuda/api_rules.h"

namespace warpsight {

constexpr uint32_t kUnknownNode = 0xff;

// CUgraphNodeType of the node that this call adds to a graph or that its capture becomes; kUnknownNode for
// calls that make no node of their own or are of no rule. `params` are the call's arguments.
uint32_t type_made_by(uint8_t domain, uint32_t cbid, const void* params);

}  // namespace warpsight
