// The variables that a cubin keeps in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace warpsight {

struct CubinVariable {
  std::string name;
  uint64_t size = 0;
  bool constant = false;
};

// Its `__device__` and `__constant__` variables; empty if it is not a cubin or is damaged.
std::vector<CubinVariable> variables_of_cubin(const void* image, size_t size);

}  // namespace warpsight
