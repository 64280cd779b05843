// The addresses that copies and fills read and wrote, from the arguments of their calls and of the calls that
// create graph nodes.
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

// Whether a function's arguments contain addresses.
bool has_addresses(uint8_t domain, uint32_t cbid);

// The first byte read and written; of a function without addresses, or without `params`, unknown.
Addresses addresses_of(uint8_t domain, uint32_t cbid, const void* params);

// The operation of a graph node from now on; unknown addresses clear what is known about it.
void set_node_addresses(uint64_t node, Addresses addresses);

// A copy or fill node was created: nothing is known about it yet, whatever a destroyed one with the same id
// did.
void begin_node_addresses(uint64_t node);

// A copy or fill node was cloned: the clone now does what the original does.
void clone_node_addresses(uint64_t node, uint64_t original);

// A graph node was changed by a call that names it, in an executable graph whose own node CUPTI did not
// report: the operation of its clones is no longer known.
void forget_clone_addresses(uint64_t original);
void forget_all_clone_addresses();

// The node is destroyed. What is known about it stays: launches of it may still have to be read.
void forget_node_addresses(uint64_t node);

}  // namespace warpsight
