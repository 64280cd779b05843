// What the NVBit tool does at contexts and launches, and the thread that drains the rings.
#pragma once

#include <nvbit.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nvbit/graph_launches.h"
#include "nvbit/instrument.h"
#include "nvbit/memory.h"
#include "nvbit/tool_format.h"
#include "sanitizer/delays.h"
#include "sanitizer/event_file.h"
#include "sanitizer/request.h"
#include "sanitizer/ring.h"

namespace warpsight {

// A launch as the driver is asked for it.
struct LaunchCall {
  CUfunction function = nullptr;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  CUstream stream = nullptr;
};

// The process's tracer; made once and never destroyed, since callbacks outlive static destructors.
class NvbitTracer {
 public:
  explicit NvbitTracer(EventRequest request);

  // Creates the event file and starts the thread; false when the file cannot be made.
  bool start();
  // Called by NVBit, on the program's threads.
  void context_made(CUcontext context);
  // `captured`: it becomes a node of a graph.
  void launch_begins(CUcontext context, const LaunchCall& call, bool captured);
  // The driver has taken the launch that this thread began.
  void launch_ends();
  // A kernel of a graph is about to be launched; kernels of one stream in their order.
  void graph_node_begins(CUcontext context, CUfunction function, CUstream stream, uint64_t handle,
                         uint64_t graph);
  // A kernel is put into a graph.
  void prepare(CUcontext context, CUfunction function);
  // Begins a trial (warpsight_race_set); false when there is no delay plan.
  bool begin_trial(uint64_t seed, bool delays);
  // Drains what is there and ends the file.
  void stop();

  static constexpr uint32_t kDelayedLaunches = 1 << 14;  // more than a context can have in flight

 private:
  struct Context {
    std::unique_ptr<EventRing> ring;
    CUdeviceptr tool = 0;  // a WsTool
    WsTool said = {};      // what is in it
    uint32_t device = 0;
    GraphLaunches graphs;
    // WS_DELAY
    DriverMemory memory;
    std::unique_ptr<Delays> delays;
    WsLaunch* launches = nullptr;  // device: descriptions of launches, used round-robin
    uint32_t next = 0;
    uint32_t places = 0;  // points of its functions
  };
  // A kernel that was launched.
  struct Kernel {
    uint32_t number = 0;
    bool wanted = false;  // it was asked for and can be recorded; for delays, it or what it calls has points
    uint32_t module = 0;
    std::string name;
    uint64_t pc = 0;
    Code code;                         // WS_DELAY
    const DelayPoint* host = nullptr;  // WS_DELAY: the point at which the host waits
  };

  CUresult allocate(Context* context, void** host);
  WsTool tool_of(void* host, CUdeviceptr words, CUdeviceptr counters, GraphLaunches* graphs) const;
  const Kernel& kernel_of(CUcontext context, CUfunction function);
  bool take_function(CUcontext context, CUfunction function, Context* own, uint32_t module);
  bool take_points(const std::vector<Instr*>& instructions, const std::string& name, uint64_t pc,
                   Context* own, uint32_t module);
  Code code_of(const std::string& name, uint32_t module);
  uint64_t next_delayed(const Kernel& kernel, CUcontext context, const LaunchCall& call, uint64_t graph,
                        int64_t* waits);
  void take_codes(uint32_t module, const std::string& image);
  void find_host_point(Kernel* kernel);
  uint32_t module_of(CUcontext context, CUfunction function);
  uint64_t next_launch(const Kernel& kernel, CUcontext context, const LaunchCall& call, uint64_t graph);
  uint64_t next(const Kernel& kernel, CUcontext context, const LaunchCall& call, uint64_t graph,
                int64_t* waits);
  void describe_launch(const Kernel& kernel, CUcontext context, const LaunchCall& call, uint64_t index,
                       uint64_t graph, int64_t waits);
  void trouble(const std::string& what, uint64_t count);
  void drain_loop();
  size_t drain_all();

  const EventRequest request_;
  const Instrumenter instrumenter_;
  DelayPlan plan_;                    // WS_DELAY; its rule is changed under the lock below
  unsigned long long threshold_ = 0;  // of the plan as it was read
  const uint64_t zero_;               // see WsTool
  EventFile file_;

  std::mutex mutex_;  // protects what follows, which callbacks on the program's threads use
  std::map<CUcontext, std::unique_ptr<Context>> contexts_;  // null where no ring could be made
  std::map<std::pair<CUcontext, CUfunction>, Kernel> kernels_;
  std::map<std::pair<CUcontext, CUfunction>, bool> functions_;    // looked at: whether they are recorded
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> modules_;     // by size and checksum of their code
  std::map<uint32_t, std::map<std::string, std::string>> codes_;  // WS_DELAY: checksums by module and name
  std::set<std::string> troubles_;
  uint32_t launches_ = 0;  // recorded ones
  uint64_t matching_ = 0;  // launches of requested kernels

  std::timed_mutex launching_;  // protects what NVBit gives to a function's next launch, until it is launched

  std::mutex drain_mutex_;  // protects `rings_` and reading from them
  std::vector<EventRing*> rings_;
  std::atomic<bool> stopping_{false};  // asks the thread to end
  std::thread thread_;
};

}  // namespace warpsight
