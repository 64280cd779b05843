// The source that the frame walker reads from: this process directly, or another one (or this one, safely)
// through a system call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace warpsight {

// Plain loads; only for objects that the calling thread's own frames keep alive.
struct OwnMemory {
  bool copy(uint64_t address, void* to, size_t bytes) const {
    memcpy(to, reinterpret_cast<const void*>(address), bytes);
    return true;
  }
};

// Another process's memory by whole pages, each fetched at most once between two calls of `forget`: one call
// gives one consistent page, and a walk over neighboring frames costs few calls. Unreadable addresses are an
// answer, not a fault.
class RemoteMemory {
 public:
  explicit RemoteMemory(pid_t pid) : pid_(pid) {}
  bool copy(uint64_t address, void* to, size_t bytes);
  // Reads past the cache.
  bool copy_now(uint64_t address, void* to, size_t bytes);
  // Fetches the pages of all `addresses` (and of their last byte, `bytes` on) with one call.
  void fetch(const uint64_t* addresses, size_t count, size_t bytes);
  void forget() { used_ = 0; }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kMostPages = 256;
  const uint8_t* page(uint64_t address);
  const uint8_t* cached(uint64_t address) const;
  uint8_t* room(size_t index) { return bytes_.data() + index * kPage; }

  pid_t pid_;
  size_t used_ = 0;
  uint64_t addresses_[kMostPages];
  std::vector<uint8_t> bytes_;
};

template <class T, class Memory>
inline bool load(Memory& memory, uint64_t address, T* out) {
  return memory.copy(address, out, sizeof(T));
}

}  // namespace warpsight
