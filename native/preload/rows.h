// Rows of wrapped calls, as the CUPTI recorder would have written them, without what only CUPTI knows.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "preload/library.h"

namespace warpsight {

struct Dimensions {
  unsigned grid[3], block[3], cluster[3], shared;
};

// A call in progress: construct before it, then report how it ended.
class Call {
 public:
  explicit Call(uint32_t cbid);
  void launched(CUfunction function, const Dimensions& dimensions, CUstream stream, CUresult result) const;
  void graph_launched(CUstream stream, CUresult result) const;
  void waited(const void* object, uint64_t bytes, CUresult result) const;

 private:
  void write(Api* row, CUresult result) const;

  const Library* library_;
  uint32_t cbid_;
  uint64_t start_;
};

}  // namespace warpsight
