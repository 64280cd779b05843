// Finding what memory points to.
#pragma once

#include <cuda.h>

#include <map>
#include <string>
#include <vector>

#include "capsule/memory.h"

namespace warpsight {

// A stretch of memory that is searched for addresses.
struct Searched {
  uint64_t address, size;
  bool host;
};

// Marks in `found` which of `blocks` (by address, without overlap) memory of the host points into.
void search_host(const Searched& memory, const std::vector<Block>& blocks, std::vector<uint32_t>* found);

class Reach {
 public:
  // Which of `blocks` (by address, without overlap) the memory points into: one number for each, not zero
  // where it does.
  // "" or what failed.
  std::string points_to(CUcontext context, const std::vector<Searched>& memory,
                        const std::vector<Block>& blocks, std::vector<uint32_t>* found);
  // Loads the kernel that searches, so that this does not hold the program later. "" or what failed.
  std::string prepare(CUcontext context);
  // Whether this thread loads the kernel for it just now.
  static bool loading();

  // Holds later work in the stream until open_gate(), so that its duration can be measured without the host's
  // part. Not for long, as a call may wait for the GPU. False if this is impossible.
  bool close_gate(CUcontext context, CUstream stream);
  void open_gate();

 private:
  struct Searcher {
    CUfunction kernel = nullptr, gate = nullptr;
    CUdeviceptr table = 0;  // preallocated space for the bounds of blocks and the results: allocating it
                            // would hold up the program
    size_t bytes = 0;       // of that room
  };
  std::map<CUcontext, Searcher> searchers_;
  volatile uint32_t* opened_ = nullptr;  // in the host's memory: the latest gate that is open
  uint32_t gates_ = 0;                   // there were
};

}  // namespace warpsight
