// What is traced or delayed: the launcher's request, lines of `key=value` in WARPSIGHT_EVENTS.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace warpsight {

struct Range {
  uint64_t low = 0;
  uint64_t high = ~0ull;  // not included
};

// Memory of probes: a copy of so many words for each of its owners (WS_PER_GRID and so on).
struct ProbeMap {
  uint32_t scope = 0;
  uint64_t words = 0;
  bool kept = true;  // it goes into the file
};

struct EventRequest {
  std::string file;                  // path of the event file without its pid; none: delays are not logged
  std::string library;               // libsanitizer-public.so
  std::vector<std::string> patches;  // cubins of the patches, one for each architecture of the machine
  std::vector<std::string> kernels;  // fnmatch patterns of mangled or demangled names; none: every kernel
  std::vector<std::pair<int, std::string>> instructions;  // Sanitizer_InstructionId and the patch's name
  uint32_t mode = 0;                                      // WS_RECORD and those that follow it
  uint64_t shadow_bytes = 4ull << 30;                     // WS_CHECK: of device memory at most
  std::string compiler;       // WS_CHECK: socket of what compiles checks into modules
  uint32_t architecture = 0;  // of the GPUs, for that
  std::string plan;           // file of a delay plan (delay_plan.h)
  uint64_t limit = ~0ull;     // bytes of the event file at most
  std::string description;    // JSON, goes into the file as it is
  Range launches, blocks, addresses;
  std::vector<Range> offsets;  // in the kernel
  uint32_t warps = ~0u;        // bit for each warp of a block
  uint32_t every = 1;
  uint64_t first = ~0ull;
  uint64_t ring_bytes = 64ull << 20;  // a power of two
  bool values = false;
  std::vector<std::string> probes;  // WS_PROBE: the pattern of kernels of each probe
  std::vector<ProbeMap> maps;
  uint64_t map_bytes = 1ull << 30;  // of a context at most
  // Of the NVBit tool (nvbit/tool.cpp) alone.
  uint32_t collect = 0;           // bits of what is recorded: see nvbit/instrument.h
  std::vector<std::string> sass;  // extended regular expressions on the text of instructions; none: all
  std::string nvdisasm;           // path
};

// False when the variable is not set: this process is not traced.
bool read_request(EventRequest* request);

// Whether one of the patterns matches the kernel's mangled or demangled name.
bool kernel_requested(const EventRequest& request, const std::string& name);

// Bit p: the kernel matches the pattern of probe p.
uint32_t probes_of(const EventRequest& request, const std::string& name);

}  // namespace warpsight
