// The maps of one context's probed launches: made before a launch, read when the program has waited for it.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "sanitizer/event_file.h"
#include "sanitizer/functions.h"
#include "sanitizer/probe_format.h"
#include "sanitizer/request.h"

namespace warpsight {

class Probes {
 public:
  Probes(const EventRequest& request, const SanitizerFunctions& functions, CUcontext context)
      : request_(request), functions_(functions), context_(context) {}

  // A launch's maps, zeroed in the order of its stream; `probe` stays null, without an error, where they
  // would take more memory than the request allows.
  SanitizerResult describe(const Sanitizer_LaunchData& data, uint32_t number, CUstream stream,
                           Sanitizer_StreamHandle handle, WsProbe description, const WsProbe** probe);
  // Writes the maps of the launches of a stream (all: of every stream) to the file. Waits for those that run,
  // so without the tracer's lock, which a program may need to let them end.
  void collect(CUstream stream, bool all, EventFile* file);

 private:
  struct Launch {
    uint32_t number = 0;
    CUstream stream = nullptr;
    Sanitizer_StreamHandle handle = nullptr;
    char* memory = nullptr;       // device: WsProbe, then the maps
    std::vector<uint64_t> words;  // of each map
    uint64_t bytes = 0;
  };
  std::vector<uint64_t> sizes(const Sanitizer_LaunchData& data) const;
  char* memory(uint64_t bytes, SanitizerResult* result);
  void read(const Launch& launch, EventFile* file);

  const EventRequest& request_;
  const SanitizerFunctions& functions_;
  const CUcontext context_;
  std::mutex mutex_;  // protects what follows; never held while we wait for the device
  std::vector<Launch> running_;
  std::multimap<uint64_t, char*> free_;  // by their size
  uint64_t allocated_ = 0;
};

}  // namespace warpsight
