// What an event trace does at the program's modules and launches, and the thread that drains the rings.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sanitizer/event_file.h"
#include "sanitizer/event_format.h"
#include "sanitizer/functions.h"
#include "sanitizer/request.h"
#include "sanitizer/ring.h"

namespace warpsight {

// The process's tracer; made once and never destroyed, since callbacks outlive static destructors.
class Tracer {
 public:
  Tracer(EventRequest request, const SanitizerFunctions& functions);

  // Creates the event file and starts the thread; false when the file cannot be made.
  bool start();
  // Called by the Sanitizer's callbacks, on the program's threads.
  void module_loaded(const Sanitizer_ResourceModuleData& data);
  void module_unloads(const Sanitizer_ResourceModuleData& data);
  // `graph`: number of the graph's launch, 0 outside of graphs.
  void launch_begins(const Sanitizer_LaunchData& data, uint64_t graph);
  // Drains what is there and ends the file.
  void stop();
  EventFile& file() { return file_; }

 private:
  // A context with patched modules.
  struct Context {
    std::unique_ptr<EventRing> ring;
    WsLaunch* launches = nullptr;  // device: descriptions of recorded launches, used round-robin
    char* counters = nullptr;      // device: the head of the ring, then a counter for each of them
    uint64_t* words = nullptr;     // host
    volatile uint64_t* tail = nullptr;
    uint32_t next = 0;
  };
  struct Module {
    uint32_t number = 0;
    std::vector<std::string> functions;     // of the cubin
    std::set<std::string> placed;           // kernels whose addresses were reported
    std::map<std::string, bool> requested;  // by kernel
  };

  Context* context_of(CUcontext handle);
  bool add_patches(CUcontext handle);
  bool allocate(CUcontext handle, Context* context);
  bool patch(CUmodule handle);
  uint64_t place_functions(CUmodule handle, Module* module, const std::string& kernel);
  bool record(const Sanitizer_LaunchData& data, Module* module, const std::string& name, uint64_t graph);
  void describe_launch(const Sanitizer_LaunchData& data, const Module& module, const std::string& name,
                       uint64_t pc, uint64_t graph);
  void trouble(const std::string& what, SanitizerResult result);
  void drain_loop();
  size_t drain_all();

  const EventRequest request_;
  const SanitizerFunctions functions_;
  const uint64_t zero_;  // see WsLaunch
  EventFile file_;

  std::mutex mutex_;  // protects what follows; the Sanitizer wants its patching calls one at a time too
  std::map<CUcontext, std::unique_ptr<Context>> contexts_;  // null where patches could not be loaded
  std::map<CUmodule, Module> modules_;                      // patched ones
  std::set<std::string> troubles_;                          // already reported
  uint32_t modules_seen_ = 0;
  uint32_t recorded_ = 0;        // launches
  uint64_t recorded_graph_ = 0;  // the last launch of a graph with a recorded kernel
  uint64_t matching_ = 0;        // launches of requested kernels so far

  std::mutex drain_mutex_;  // protects `rings_` and reading from them
  std::vector<EventRing*> rings_;
  std::atomic<bool> stopping_{false};  // asks the thread to end
  std::thread thread_;
};

}  // namespace warpsight
