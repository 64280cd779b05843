// zlib's CRC-32, here so that the library links to nothing but libc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight {

// Continues `crc` (0 at the start) over `bytes`, as zlib's crc32() does.
uint32_t crc32(uint32_t crc, const void* bytes, size_t count);

}  // namespace warpsight
