// Launch shapes repeat: a small direct-mapped cache in front of intern_shape, one per thread, without a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ring/ring.h"

namespace warpsight {

class ShapeCache {
 public:
  // The id of `shape` (its own id field must be 0).
  uint32_t id(const Shape& shape) {
    Shape& entry = entries_[slot(shape)];
    if (entry.id != 0 && memcmp(&entry.grid_x, &shape.grid_x, kCompared) == 0) return entry.id;
    const uint32_t id = intern_shape(shape);
    entry = shape;
    entry.id = id;
    return id;
  }

 private:
  static constexpr size_t kEntries = 16;
  static constexpr size_t kCompared = sizeof(Shape) - offsetof(Shape, grid_x);

  static size_t slot(const Shape& shape) {
    const uint64_t mixed = (static_cast<uint64_t>(static_cast<uint32_t>(shape.grid_x)) << 32 |
                            static_cast<uint32_t>(shape.block_x)) ^
                           static_cast<uint64_t>(static_cast<uint32_t>(shape.grid_y)) << 17 ^
                           static_cast<uint64_t>(shape.shared_dynamic) << 5 ^ shape.registers;
    return mixed * 0x9e3779b97f4a7c15ull >> 60;
  }

  Shape entries_[kEntries];
};

}  // namespace warpsight
