// Cuts the chosen work out of a running program: decides where the range begins and ends, and describes its
// contents.
#pragma once

#include <cupti.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "capsule/calls.h"
#include "capsule/driver.h"
#include "capsule/graphs.h"
#include "capsule/memory.h"
#include "capsule/modules.h"
#include "capsule/notes.h"
#include "capsule/output.h"
#include "capsule/reach.h"
#include "capsule/recent.h"
#include "capsule/request.h"
#include "capsule/snapshot.h"
#include "capsule/work.h"

namespace warpsight {

// The process's recorder; made once and never destroyed, since callbacks outlive static destructors.
class CapsuleRecorder {
 public:
  CapsuleRecorder(CapsuleRequest request);

  // Makes the output; false, with errno, when it cannot be made.
  bool start();
  // CUPTI's callbacks, on the program's threads.
  void on_driver(uint32_t cbid, const CUpti_CallbackData& call);
  void on_resource(uint32_t id, const CUpti_ResourceData& data);
  // Whether wrappers of the launch functions report launches until the first chosen one.
  bool wants_wrappers();
  // Such a wrapper is about to make the launch.
  void before_launch(uint32_t cbid, const void* params);
  // Whether ranges of this name were requested and one begins or ends on this thread.
  bool asked_for(const char* range) const;
  void range_begins(const char* name);
  void range_ends(const char* name);
  // Says why nothing was cut out, and ends.
  void refuse(const std::string& why);
  // The process ends.
  void at_exit();
  // The requested signal or the launcher's trigger has arrived; safe in a handler.
  void arm() { armed_.store(true, std::memory_order_relaxed); }
  // It has come: on any thread, soon after.
  void armed();
  // The calls that the recorder needs while it waits.
  Followed needed() const;
  int signal() const { return request_.signal; }
  // The folder of a process that waits for its launcher; empty: it does not.
  std::string awaits() const { return request_.trigger ? request_.folder : ""; }
  // Nothing will be cut out any more.
  bool done() const { return state_.load(std::memory_order_relaxed) == State::done; }

 private:
  enum class State : int { waiting, open, done };
  struct Held {
    Block block;
    int number;
    bool after = false;  // contents after the range were taken
  };
  // Whether a launch is requested, and whether the range, or all ranges, end with it; `number`: its number
  // among the matching launches, in the order in which they took the lock.
  struct Choice {
    bool wanted = false, last = false, final = false;
    uint64_t number = 0;
  };
  struct HeldGlobal {
    uint64_t address, size;
    int number, module;
  };

  void note(const Work& work, const Kernel* kernel, const char* function, CUcontext context);
  void note_launch(const Kernel& kernel, void** params);
  void prepare(CUcontext context);
  void enter_work(uint32_t cbid, const CUpti_CallbackData& call);
  void exit_work(uint32_t cbid, const CUpti_CallbackData& call);
  // Whether a wrapper reported the launch that CUPTI reports.
  void compare_wrappers(bool told);
  // Whether a call's work may count: what programs capture does not run.
  bool runs(const Work& work) const;
  // Counts a launch that matches; true when as many as the request leaves out came before it.
  bool counts(const Work& work, const Kernel* kernel);
  // Counts one launch that the request asks for; whether it is not before the first to be cut out.
  bool is_chosen() { return matched_.fetch_add(1, std::memory_order_relaxed) >= request_.first; }
  Choice next_choice();
  void open(CUcontext context, uint64_t number);
  void close();
  void end_early(const char* why);
  // One of many candidates is wanted (Keep): it ended, and a better one may follow; or it is the one.
  void forget_range();
  void keep_range();
  void finish();
  // Waits for the timed operation, or as long as work may take. False: the range ended here, with an
  // operation that hung or failed.
  bool await(CUresult* result);
  void keep_unfinished(const std::string& what);
  // Cuts out the launch that the launcher reports as hung; false if it reports none.
  bool cut_hung();
  void begin_operation(const Work& work, const Kernel* kernel, const CUpti_CallbackData& call);
  void end_operation(bool succeeded);
  void before_free(uint64_t address);

  // Each returns "" or the reason why the work cannot be cut out, and adds the addresses that it uses.
  struct Address {
    uint64_t value;
    std::string what;
    bool certain = true;  // else a word that may be something else
  };
  using Addresses = std::vector<Address>;
  std::string describe(const Work& work, const Kernel* kernel, CUgraphNode node, Json* json,
                       Addresses* addresses);
  std::string describe_launch(const Work& work, const Kernel* kernel, CUgraphNode node, Json* json,
                              Addresses* addresses);
  std::string describe_copy(Work work, Json* json, Addresses* addresses);
  std::string describe_graph(const Work& work, Json* json, Addresses* addresses);
  std::string attributes(const Work& work, CUgraphNode node);
  std::string function_number(const Kernel& kernel, int* number);
  std::string module_number(const Kernel& kernel, int* number);
  std::string hold(const Addresses& addresses);
  std::string add_blocks(const std::vector<Block>& blocks, const std::string& reached,
                         std::vector<Held*>* fresh);
  // Who wrote each block last, before the range.
  void log_writers();
  std::string transitive(std::vector<Held*>* fresh);
  std::string take_hung(std::vector<Held*> fresh);
  std::string take(const std::vector<Held*>& blocks, const std::vector<HeldGlobal>& globals,
                   const char* when);
  std::string describe_device(CUcontext context);
  int stream_number(CUstream stream);
  int event_number(CUevent event);
  bool tracked(uint64_t address) const;
  void incomplete(const std::string& what);

  const CapsuleRequest request_;
  Output output_;
  Memory memory_;
  Modules modules_;
  Graphs graphs_;
  Notes notes_;
  Snapshots snapshots_;
  Reach reach_;
  const std::unique_ptr<RecentLaunches> recent_;  // null: none are kept
  std::atomic<State> state_{State::waiting};      // changed under `mutex_`, read on the launch path
  std::atomic<uint64_t> matched_{0};              // launches that the request asks for, so far
  std::atomic<bool> armed_;                       // launches and ranges count
  std::atomic<bool> by_wrappers_{false};          // these count the launches that they report
  std::atomic<int> captures_{0};                  // of streams that are under way
  std::atomic<bool> prepared_{false};             // prepare() was called
  std::atomic<bool> textures_{false};             // the program has made texture or surface objects

  std::atomic<int> told_{0};   // launches by wrappers and by CUPTI; below zero once one is by CUPTI alone
  std::mutex wrappers_mutex_;  // protects that launches are followed from the first that is chosen on

  std::timed_mutex mutex_;  // protects what follows, and is held while work in the range is put on the GPU
  uint64_t chosen_ = 0;     // launches that counted and have a number
  CUcontext context_ = nullptr;
  std::string range_;  // the name of the range that is cut out
  uint64_t begin_ns_ = 0;
  uint64_t held_ns_ = 0;           // for so long the program waited for copies
  std::map<uint64_t, Held> held_;  // by address
  std::vector<HeldGlobal> globals_, fresh_globals_;
  std::unordered_set<uint64_t> looked_at_;  // words of the operation's parameters
  std::map<int, int> modules_seen_;         // numbers in the capsule by image
  std::map<const Kernel*, int> functions_;  // and by kernel
  std::map<CUstream, int> streams_;
  std::map<CUevent, int> events_;
  int graph_count_ = 0;
  uint64_t device_ns_ = 0;                              // of the range's operations
  std::vector<std::pair<uint64_t, uint64_t>> extents_;  // of the data that the range wrote
  uint64_t log_end_ = 0;                                // of the log when the range began
  uint64_t slowest_ns_ = 0;                             // of the range that is kept
  std::vector<std::pair<uint64_t, uint64_t>> slowest_extents_;
  bool hung_ = false;  // the operation is under way, and will not end
  std::vector<std::string> incomplete_;
  std::string pending_;    // the operation in progress, in JSON; empty: none
  bool timed_ = false;     // it is
  CUevent clock_[2] = {};  // before and after it
  CUstream pending_stream_ = nullptr;
};

}  // namespace warpsight
