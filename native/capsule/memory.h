// The program's device memory, tracked through the driver's calls.
#pragma once

#include <cupti.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "capsule/python.h"

namespace warpsight {

struct Block {
  uint64_t address = 0, size = 0;
  const char* kind = "malloc";  // as in the capsule; "managed" and "ipc" cannot be cut out
  const char* call = "";        // that made it
  uint64_t time = 0, sequence = 0;
  CUcontext context = nullptr;
  PythonStack stack;  // of the call

  uint64_t end() const { return address + size; }
};

class Memory {
 public:
  // A call that makes or frees memory has returned successfully.
  void on_exit(uint32_t cbid, const void* params, const CUpti_CallbackData& call);
  // A call that frees memory begins; the address it names, 0 for other calls.
  static uint64_t freed_by(uint32_t cbid, const void* params);
  // The block that contains an address; false if there is none.
  bool find(uint64_t address, Block* block) const;
  // With it, for memory mapped piece by piece, those that are without a gap before and behind it.
  std::vector<Block> reached_with(const Block& block) const;
  std::vector<Block> all() const;
  // Bytes of the GPUs' memory.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Whether it can be an address of a block; cheap.
  bool plausible(uint64_t value) const {
    return value >= low_.load(std::memory_order_relaxed) && value < high_.load(std::memory_order_relaxed);
  }

 private:
  void add(Block block);
  void remove(uint64_t address, uint64_t size);  // all that begins in it

  mutable std::mutex mutex_;          // protects `blocks_` and `calls_`
  std::map<uint64_t, Block> blocks_;  // by address
  uint64_t calls_ = 0;                // that made memory
  std::atomic<uint64_t> low_{~0ull};  // bounds of all blocks there ever were; read on the launch path
  std::atomic<uint64_t> high_{0};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace warpsight
