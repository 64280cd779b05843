// A replay's output: lines of words in the file `results` of the output folder, the last of them `end` or
// `failed`.
#pragma once
#include <cuda.h>

#include <cstdio>

#include "replay/driver.h"

namespace warpsight::replay {

// Exit codes of the program, which the Python side reads.
enum Exit : int { kDone = 0, kFailed = 1, kBadScript = 2, kAddressTaken = 3, kNoDevice = 4 };

class Report {
 public:
  bool open(const char* folder);
  void line(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // Whether a call succeeded; otherwise reports the action, its operation (-1: none), and the driver's name
  // for it.
  bool check(const Driver& driver, CUresult result, const char* what, long long operation = -1);
  // An address of the program is in use here; another process may have it free. Returns false.
  bool taken(unsigned long long address, const char* by);
  bool addresses_taken() const { return taken_; }

 private:
  FILE* file_ = nullptr;
  bool taken_ = false;
};

}  // namespace warpsight::replay
