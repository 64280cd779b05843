// Line numbers from the tables that code objects carry.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight {

// The line of the instruction at byte `offset`, or 0 if the table has no line for it. `locations`: whether it
// is a PEP 657 table (3.11+, Objects/locations.md) or 3.10's pairs of deltas (Objects/lnotab_notes.txt).
uint32_t line_at(bool locations, const uint8_t* table, size_t bytes, int first_line, uint32_t offset);

}  // namespace warpsight
