// What copies and fills read and wrote, from the arguments of their calls and of the calls that make graph
// nodes.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

// 0 is unknown: arrays, symbols by their host handle, batches.
struct Addresses {
  uint64_t source, destination;
};

// Fills the table behind has_addresses; once, before the first callback.
void index_addresses();

// Whether the arguments of a function tell addresses.
bool has_addresses(uint8_t domain, uint32_t cbid);

// The first byte read and written; of a function without addresses, or without `params`, unknown.
Addresses addresses_of(uint8_t domain, uint32_t cbid, const void* params);

// A graph node copies or fills these from now on; unknown ones take what is known of it away.
void set_node_addresses(uint64_t node, Addresses addresses);

// A copy or fill node was made: nothing is known of it yet, whatever a destroyed one of the same id did.
void begin_node_addresses(uint64_t node);

// A copy or fill node was cloned: the clone does what the original does now.
void clone_node_addresses(uint64_t node, uint64_t original);

// A node of a graph was changed by a call that names it, in an executable graph whose own node CUPTI did not
// tell: what its clones do is not known any more.
void forget_clone_addresses(uint64_t original);
void forget_all_clone_addresses();

// It is destroyed. What was told of it stays told: launches of it may still have to be read.
void forget_node_addresses(uint64_t node);

}  // namespace warpsight
