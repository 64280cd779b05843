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

#include "sanitizer/compiled_modules.h"
#include "sanitizer/delays.h"
#include "sanitizer/event_file.h"
#include "sanitizer/event_format.h"
#include "sanitizer/functions.h"
#include "sanitizer/probes.h"
#include "sanitizer/race_checks.h"
#include "sanitizer/request.h"
#include "sanitizer/ring.h"

namespace warpsight {

// The process's tracer; made once and never destroyed, since callbacks outlive static destructors.
class Tracer {
 public:
  Tracer(EventRequest request, const SanitizerFunctions& functions);

  // Reads the plan, creates the event file and starts the thread; false when the file cannot be made.
  bool start();
  // What replaces modules while they are loaded; null when nothing does.
  CompiledModules* compiled() { return compiled_.get(); }
  // Called by the Sanitizer's callbacks, on the program's threads.
  void module_loaded(const Sanitizer_ResourceModuleData& data);
  void module_unloads(const Sanitizer_ResourceModuleData& data);
  // `graph`: number of the graph's launch, 0 outside of graphs.
  void launch_begins(const Sanitizer_LaunchData& data, uint64_t graph);
  // What orders launches of two streams: an event is recorded or waited for, or the host has waited for an
  // event, a stream or everything.
  void ordered(const char* what, CUevent event, CUstream stream);
  // The program has waited for a stream (all: every stream) of a context, or ends one (null: all contexts):
  // what probes gathered there can be read.
  void collect(CUcontext context, CUstream stream, bool all);
  // See warpsight_race_set; false when there is no delay plan.
  bool begin_trial(uint64_t seed, bool delays);
  // See warpsight_race_plan.
  bool change_plan(const std::string& path);
  // Drains the remaining records and ends the file.
  void stop();
  EventFile& file() { return file_; }

 private:
  // Memory of a context from the Sanitizer.
  struct Memory final : DeviceMemory {
    Memory(const SanitizerFunctions& functions, CUcontext context) : functions(functions), context(context) {}
    int alloc(void** made, size_t bytes) override { return functions.alloc(context, made, bytes); }
    int clear(void* at, size_t bytes, void* stream) override {
      return functions.memset(at, 0, bytes, static_cast<Sanitizer_StreamHandle>(stream));
    }
    int copy(void* to, const void* from, size_t bytes, void* stream) override {
      return functions.copy_to_device(to, const_cast<void*>(from), bytes,
                                      static_cast<Sanitizer_StreamHandle>(stream));
    }
    const SanitizerFunctions& functions;
    const CUcontext context;
  };
  // Words of a context's counters, and how many launches it has descriptions for: more than can be in flight.
  static constexpr uint32_t kHead = 0, kTailSeen = 16, kFirstCounter = 32, kLaunches = 1 << 14;
  // A context with patched modules.
  struct Context {
    Context(const SanitizerFunctions& functions, CUcontext handle) : memory(functions, handle) {}
    Memory memory;
    std::unique_ptr<EventRing> ring;
    WsLaunch* launches = nullptr;  // device: descriptions of recorded launches, used round-robin
    char* counters = nullptr;      // device: the head of the ring, then a counter for each of them
    uint64_t* words = nullptr;     // host
    volatile uint64_t* tail = nullptr;
    uint32_t next = 0;
    unsigned long long* notes = nullptr;  // device: WS_NOTE
    std::unique_ptr<Delays> delays;       // WS_DELAY
    std::shared_ptr<Probes> probes;       // WS_PROBE
    std::unique_ptr<RaceChecks> races;    // WS_CHECK
    WsPlace* places = nullptr;            // device: launches of kernels with compiled checks, by their grid
  };
  // A function of a module with points of the plan.
  struct Delayed {
    Code code;
    uint32_t place = 0;   // number of its first point in the module
    bool placed = false;  // it is loaded, and its points are told
  };
  struct Module {
    uint32_t number = 0;
    std::vector<std::string> functions;        // of the cubin
    std::set<std::string> kernels;             // of these
    std::set<std::string> placed;              // kernels whose addresses were reported
    std::map<std::string, bool> requested;     // by kernel
    std::map<std::string, Delayed> delayed;    // functions with points
    std::map<std::string, std::string> codes;  // WS_CHECK: of functions
    uint32_t architecture = 0;
    const CompiledModule* compiled = nullptr;  // WS_CHECK: its checks, where it was compiled with them
    void* places = nullptr;                    // of these: the variable that points to the context's places
    std::set<Sanitizer_StreamHandle> streams;  // in which it was set
  };

  Context* context_of(CUcontext handle);
  bool add_patches(CUcontext handle);
  bool allocate(CUcontext handle, Context* context);
  SanitizerResult finish(void* memory);
  bool patch(CUmodule handle);
  uint64_t place_functions(CUmodule handle, Module* module, const std::string& kernel);
  bool take_checks(const Sanitizer_ResourceModuleData& data, Module* module);
  SanitizerResult set_place(const Context& context, Module* module, const Sanitizer_LaunchData& data,
                            Sanitizer_StreamHandle stream, const WsLaunch* launch);
  bool take_points(const Sanitizer_ResourceModuleData& data, Module* module);
  void read_code(CUmodule handle, Context* context, const Module& module, const std::string& kernel);
  void place_points(CUmodule handle, Context* context, Module* module, const std::string& kernel);
  bool delay_wanted(const Sanitizer_LaunchData& data, Module* module, const std::string& name, uint64_t graph,
                    uint64_t* index);
  uint64_t host_delay(const Module& module, const std::string& name, uint64_t index) const;
  bool wanted(const Sanitizer_LaunchData& data, Module* module, const std::string& name, uint64_t graph,
              uint64_t* index);
  bool record(const Sanitizer_LaunchData& data, Module* module, const std::string& name, uint64_t index,
              uint64_t graph);
  SanitizerResult fill(const Sanitizer_LaunchData& data, uint64_t pc, uint64_t index, uint64_t graph,
                       Sanitizer_StreamHandle stream, Context* context, WsLaunch* launch);
  SanitizerResult attach_probes(const Sanitizer_LaunchData& data, const std::string& name, uint64_t pc,
                                uint64_t graph, Sanitizer_StreamHandle stream, Context* context,
                                WsLaunch* launch);
  void describe_launch(const Sanitizer_LaunchData& data, const Module& module, const std::string& name,
                       uint64_t pc, uint64_t index, uint64_t graph);
  void trouble(const std::string& what, SanitizerResult result);
  void collect_last();
  void drain_loop();
  size_t drain_all();
  void flush_all();

  const EventRequest request_;
  DelayPlan first_plan_;  // WS_DELAY: what is patched
  DelayPlan plan_;        // what waits; changed under the lock below
  const SanitizerFunctions functions_;
  const std::unique_ptr<CompiledModules> compiled_;
  const uint64_t zero_;  // see WsLaunch
  EventFile file_;
  unsigned long long threshold_ = 0;  // of the plan as it was read

  std::mutex mutex_;  // protects what follows; the Sanitizer wants its patching calls one at a time too
  std::map<CUcontext, std::unique_ptr<Context>> contexts_;  // null where patches could not be loaded
  std::map<CUmodule, Module> modules_;                      // patched ones
  std::set<std::string> troubles_;                          // already reported
  uint32_t modules_seen_ = 0;
  uint32_t recorded_ = 0;                 // launches
  const void* recorded_slot_ = nullptr;   // the arguments of the patches of the last recorded launch
  uint64_t recorded_graph_ = 0;           // the last launch of a graph with a recorded kernel
  uint64_t matching_ = 0;                 // launches of requested kernels so far
  std::set<uint64_t> graph_kernels_;      // where the probed kernels of that graph begin
  uint64_t no_room_ = 0, in_graphs_ = 0;  // launches without the maps of probes, and why

  std::mutex drain_mutex_;  // protects `rings_` and reading from them
  std::vector<EventRing*> rings_;
  std::atomic<bool> stopping_{false};  // asks the thread to end
  std::thread thread_;
};

}  // namespace warpsight
