// The Python stack that a thread of PyTorch's autograd engine works for. Backward runs on threads of the
// engine, which have no Python frames of their own; the thread that called backward stands still in one
// function until it is done.
#pragma once

#include "stacks/interpreter.h"

namespace warpsight {

// Which backward pass the calling thread works on, as PyTorch numbers them.
constexpr int64_t kNoPass = -1;       // none
constexpr int64_t kUnknownPass = -2;  // PyTorch cannot be asked
int64_t current_pass();

// Looks for PyTorch's answer to that when a thread has missed it. Takes the loader's lock: not for callbacks.
void find_passes();

enum class Waiting {
  nobody,
  one,
  several,  // and it is unknown which of them this thread works for
  moving,   // somebody, but not standing still
};

// The only thread that is in a call of backward. All reads survive wrong addresses; no lock is taken.
class Waiter {
 public:
  explicit Waiter(const Interpreter& python);
  // Its frames, at most `depth`, go to `chain`.
  Waiting find(uint32_t depth, Chain* chain);
  // Whether it has not moved since. Forgets what was read of memory before.
  bool still(const Chain& chain);
  RemoteMemory& memory() { return memory_; }

 private:
  bool waits(uint64_t thread);
  bool is_backward(const Place& place);
  const Interpreter& python_;
  RemoteMemory memory_;
  uint64_t thread_ = 0;
  uint32_t depth_ = 0;
};

}  // namespace warpsight
