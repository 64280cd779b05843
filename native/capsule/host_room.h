// Memory of the host for copies, made and pinned before a program is held: that takes longer than copying.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace warpsight {

class HostRoom {
 public:
  struct Stretch {
    uint64_t bytes;
    bool is_pinned;
  };

  ~HostRoom() { stop(true); }
  // The most that is made in advance: bytes; 0 where the host, or a limit of the process, has not enough.
  uint64_t most();
  // Makes so many bytes in all, on a thread of its own; they are pinned with a context, if there is one.
  void expect(CUcontext context, uint64_t bytes);
  // Room for so many bytes, to be unmapped by the caller after stop(); null where the host has not enough.
  char* take(uint64_t bytes);
  // How many of `bytes` bytes from there on, at least one, are pinned together, or are not pinned.
  Stretch stretch(const char* at, uint64_t bytes);
  // No more is made, and what is there is no longer pinned. `hung`: nothing may wait for the GPU.
  void stop(bool hung);

 private:
  void make();
  bool pin(char* at, uint64_t bytes);

  std::mutex mutex_;  // protects all that follows
  std::condition_variable changed_;
  std::thread thread_;
  CUcontext context_ = nullptr;
  char* region_ = nullptr;    // reserved
  std::vector<bool> pinned_;  // each part of it that was made
  uint64_t most_ = 0, expected_ = 0, taken_ = 0;
  bool is_known_ = false, stopped_ = false;
};

}  // namespace warpsight
