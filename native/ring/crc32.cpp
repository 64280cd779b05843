// Slicing-by-8 (Kounavis and Berry, 2005): eight table look-ups for eight bytes, about 1.5 GB/s.
#include "ring/crc32.h"

#include <cstring>

namespace warpsight {

namespace {

struct Tables {
  uint32_t of[8][256];
};

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    tables.of[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (int slice = 1; slice < 8; ++slice) {
      const uint32_t crc = tables.of[slice - 1][byte];
      tables.of[slice][byte] = (crc >> 8) ^ tables.of[0][crc & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32(uint32_t crc, const void* data, size_t count) {
  const unsigned char* bytes = static_cast<const unsigned char*>(data);
  const auto& of = kTables.of;
  crc = ~crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint32_t low, high;
    memcpy(&low, bytes, 4);
    memcpy(&high, bytes + 4, 4);
    low ^= crc;
    crc = of[7][low & 255] ^ of[6][low >> 8 & 255] ^ of[5][low >> 16 & 255] ^ of[4][low >> 24] ^
          of[3][high & 255] ^ of[2][high >> 8 & 255] ^ of[1][high >> 16 & 255] ^ of[0][high >> 24];
  }
  for (; count; ++bytes, --count) crc = (crc >> 8) ^ of[0][(crc ^ *bytes) & 255];
  return ~crc;
}

}  // namespace warpsight
