// Race detection in one context: its memory on the device, and the information that the patches get about
// each launch.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sanitizer/code_facts.h"
#include "sanitizer/compiled_modules.h"
#include "sanitizer/functions.h"
#include "sanitizer/race_layout.h"

namespace warpsight {

// A function as it is in memory.
struct PlacedCode {
  uint64_t pc = 0;
  std::string code;
};

// Used under the tracer's lock.
class RaceChecks {
 public:
  RaceChecks(const SanitizerFunctions& functions, CUcontext context)
      : functions_(functions), context_(context) {}

  // Takes memory for the shadow, `bytes` or what there is of it.
  SanitizerResult start(uint64_t bytes);
  // Whether the code of a kernel was read before.
  bool knows(CUmodule module, const std::string& kernel) const {
    return kernels_.count({module, kernel}) != 0;
  }
  // Reads a kernel's code, which comes first, and that of functions that it may call.
  void read(CUmodule module, const std::string& kernel, std::vector<PlacedCode> codes, uint32_t architecture);
  // Takes the sites of a kernel that was compiled with its checks.
  void read_compiled(CUmodule module, const std::string& kernel, const CompiledKernel& compiled,
                     uint32_t architecture);
  void forget(CUmodule module);
  // Describes a launch to its checks, in the order of a stream: `device` is where they find it.
  SanitizerResult describe(CUmodule module, const std::string& kernel, const Sanitizer_LaunchData& data,
                           Sanitizer_StreamHandle stream, const WsRace** device);

 private:
  struct Kernel {
    uint32_t number = 0;
    CodeFacts facts;
    std::vector<WsFunction> functions;
    std::vector<uint32_t> site_pcs;
    uint32_t architecture = 0;
    unsigned int* device = nullptr;            // words, site_pcs, site_facts
    std::set<Sanitizer_StreamHandle> streams;  // where they were copied before what follows
  };
  template <class Item>
  SanitizerResult allocate(Item** memory, uint64_t count, Sanitizer_StreamHandle stream);
  SanitizerResult upload(Kernel* kernel, Sanitizer_StreamHandle stream);
  SanitizerResult advance(const Sanitizer_LaunchData& data, Sanitizer_StreamHandle stream, WsRace* race);

  const SanitizerFunctions& functions_;
  const CUcontext context_;
  WsRace shared_ = {};       // what launches have in common
  WsRace* races_ = nullptr;  // device: descriptions of launches, used round-robin
  uint32_t launches_ = 0;
  uint64_t pages_ = 0;   // of global memory that have a shadow
  uint64_t rows_ = 1;    // handed out
  uint64_t blocks_ = 0;  // of all launches
  std::map<std::pair<CUmodule, std::string>, Kernel> kernels_;
  uint32_t kernel_count_ = 0;
};

}  // namespace warpsight
