#include "stacks/line_table.h"

namespace warpsight {

namespace {

// A number in groups of six bits, lowest first; bit 6 means that more follow. The sign is the lowest bit.
int signed_varint(const uint8_t* table, size_t bytes, size_t at) {
  uint32_t value = 0;
  for (int shift = 0; at < bytes && shift < 30; ++at, shift += 6) {
    value |= static_cast<uint32_t>(table[at] & 63) << shift;
    if (!(table[at] & 64)) break;
  }
  const int magnitude = static_cast<int>(value >> 1);
  return value & 1 ? -magnitude : magnitude;
}

enum LocationCode { kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };

uint32_t line_from_locations(const uint8_t* table, size_t bytes, int first_line, uint32_t offset) {
  int line = first_line;
  uint32_t end = 0;
  for (size_t at = 0; at < bytes;) {
    const uint8_t head = table[at];
    const int code = head >> 3 & 15;
    end += ((head & 7) + 1) * 2;
    if (code == kLong || code == kNoColumns) {
      line += signed_varint(table, bytes, at + 1);
    } else if (code >= kOneLine0 && code <= kOneLine2) {
      line += code - kOneLine0;
    }
    if (offset < end) return code == kNone || line < 0 ? 0 : static_cast<uint32_t>(line);
    for (++at; at < bytes && !(table[at] & 128); ++at) {
    }
  }
  return 0;
}

uint32_t line_from_deltas(const uint8_t* table, size_t bytes, int first_line, uint32_t offset) {
  int line = first_line;
  uint32_t end = 0;
  for (size_t at = 0; at + 1 < bytes; at += 2) {
    end += table[at];
    const int delta = static_cast<int8_t>(table[at + 1]);
    const bool no_line = delta == -128;
    if (!no_line) line += delta;
    if (offset < end) return no_line || line < 0 ? 0 : static_cast<uint32_t>(line);
  }
  return 0;
}

}  // namespace

uint32_t line_at(bool locations, const uint8_t* table, size_t bytes, int first_line, uint32_t offset) {
  return locations ? line_from_locations(table, bytes, first_line, offset)
                   : line_from_deltas(table, bytes, first_line, offset);
}

}  // namespace warpsight
