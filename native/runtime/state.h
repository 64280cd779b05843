// The runtime's one object, shared by runtime.cpp (life cycle) and worker.cpp (our thread).
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <vector>

#include "ring/drain.h"
#include "runtime/connection.h"
#include "runtime/runtime.h"
#include "runtime/timed_wait.h"

namespace warpsight {

enum class Phase : uint32_t {
  unstarted,  // nothing tried yet
  running,    // connected; recording or dormant
  stopped,    // was running; ws_start may run it again
  disabled,   // no launcher, or a forked child of a process that recorded: for ever
};

// What others ask of our thread; it answers by `served` reaching the number they drew.
struct Requests {
  uint64_t asked = 0;
  uint64_t served = 0;
  bool forced = false;
  bool leave = false;  // exit() begins: end what needs libraries that it takes down
  bool stop = false;   // end the recording and the thread
  bool exit = false;   // the process is exiting: flush by force, then end
};

struct Registered {
  Recorder* recorder;
  bool started;
};

struct Runtime {
  Runtime();

  std::atomic<Phase> phase{Phase::unstarted};  // changed under `lock`
  pid_t pid = 0;  // the process this state belongs to; differs in a child that skipped our fork handler
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // protects phase changes, connection, requests
  pthread_cond_t served;  // on CLOCK_MONOTONIC; signaled when requests were served or the thread ended
  pthread_cond_t woken;   // likewise; signaled when there are new requests
  pthread_mutex_t recorder_lock =
      PTHREAD_MUTEX_INITIALIZER;          // no two recorder methods at once; taken before `lock`
  std::vector<Registered> recorders;      // under recorder_lock
  bool recorders_started = false;         // under recorder_lock: what fork asks
  std::atomic<bool> leaving{false};       // exit() has begun; set under recorder_lock
  std::atomic<bool> wants_record{false};  // the launcher says record; changed under recorder_lock
  bool in_range = false;                  // under recorder_lock: of settings().capture_range
  Connection connection;
  std::string launcher;  // under `lock`: the socket of the recording that runs, or ran last
  Requests requests;
  bool thread_alive = false;  // under `lock`: it serves requests
  bool joinable = false;      // under `lock`: `thread` was not waited for; never, when it stays for the exit
  pthread_t thread = {};
  Drainer* drainer = nullptr;  // ours, once the launcher is gone; our thread only
};

Runtime& runtime();
inline void set_recording(bool on) { __atomic_store_n(&g_recording, on, __ATOMIC_RELEASE); }
std::string launcher_socket();        // of the recording that runs; empty without one
void register_handlers();             // fork and exit, once; under `lock` or before there are threads
int start_runtime(const char* path);  // connects now; 0 or an errno
int stop_runtime(uint32_t ms);        // ends the recording, so that another can start; 0 or an errno
void* worker_main(void*);
void apply_record(Runtime& r, bool record);  // starts or stops every recorder; takes recorder_lock

}  // namespace warpsight
