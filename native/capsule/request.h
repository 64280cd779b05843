// What to cut out: the launcher's request, lines of `key=value` in WARPSIGHT_CAPSULE.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpsight {

// Which of the chosen launches or ranges is kept: all of them, as one; or one alone.
enum class Keep : int { all, slowest, hung, faulted };

struct CapsuleRequest {
  std::string folder;                // where each process makes a folder named by its pid
  std::vector<std::string> kernels;  // fnmatch patterns of mangled or demangled names; empty: every kernel
  uint64_t first = 0, end = 1;       // launches of those kernels: first <= n < end
  std::string range;                 // fnmatch pattern of NVTX ranges; empty: launches decide
  bool everything = false;           // all live memory, not only what is reachable
  bool contents = true;              // copy what memory holds
  bool shadow = true;                // copy within the GPU first when it has room
  uint64_t limit = ~0ull;            // bytes of an allocation whose contents come along
  bool hangs = false;    // the launch that the launcher reports as hung, regardless of other requests
  int signal = 0;        // nothing is counted before this one has come; 0: from the start
  bool trigger = false;  // nor before the launcher has written into `trigger` in the process's folder
  Keep keep = Keep::all;
  uint64_t patience_ns = ~0ull;  // work that takes longer hangs
};

// False when the variable is not set: this process is not recorded.
bool read_capsule_request(CapsuleRequest* request);

}  // namespace warpsight
