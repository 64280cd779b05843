// What every recorder (CUDA, OpenCL, NVTX, user events) stands on: settings, the connection to the launcher,
// the control word, our one background thread, loss, and the rule that a forked child does nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../ring/ring.h"

namespace warpsight {

enum class StackMode { off, python, native, both };
enum class GraphMode { automatic, node, graph };
enum class NcclMode { automatic, on, off };

}  // namespace warpsight

#include "settings_struct.h"  // generated from warpsight/recorder/options/table.py

namespace warpsight {

// Effective settings, read once from WARPSIGHT_* (see docs/reference/options.md).
const Settings& settings();

// A backend. Methods run on our background thread unless said otherwise, never two at once.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual const char* name() const = 0;
  virtual void start() = 0;             // begin recording; called again after stop
  virtual void stop() = 0;              // disable, flush, leave no cost behind
  virtual void flush(bool forced) = 0;  // hand over complete blocks; forced (at exit): everything
  virtual void leaving() {}             // exit() begins: libraries that were used may be gone when it ends
  virtual void exiting() {}             // the program exits; the last flush follows
  virtual void tick() {}                // every flush period while recording
  // The program's own range (Settings::capture_range) began or ended, between start and stop. Called on the
  // program's thread, inside the call that began or ended it.
  virtual void range(bool /*open*/) {}
};

// Starts the runtime on the first call (arena, connection, thread, atexit, pthread_atfork); true when this
// process records. Cheap afterwards; false forever in a process without WARPSIGHT_SOCKET. Safe from any
// thread.
bool ensure_runtime();

// NAME.warp, the folder of the recording this process belongs to; empty when the launcher did not say.
std::string recording_folder();

// Registers a backend; starts it at once, on the calling thread, when the control word says record.
void add_recorder(Recorder* recorder);

// With Settings::capture_range: begins or ends recording immediately, on the calling thread, when the program
// requests it. False if a recorder was busy for longer than `ms`.
bool switch_range(bool open, uint32_t ms);
bool in_range();  // for recorders, inside of their methods

// What a recorder calls lives in libraries that clean up in exit(). From now on exit() tells us before those
// that are there today: then recorders leave, are flushed, and neither ticked nor stopped. Called again where
// more libraries were loaded.
void watch_exit();

// The hot check: false before start, after stop, while dormant and in a forked child. One load; it acquires
// what the recorders set up before the recording began (tables, kinds, the interpreter's layout).
extern volatile bool g_recording;
inline bool recording() { return __builtin_expect(__atomic_load_n(&g_recording, __ATOMIC_ACQUIRE), 1); }

uint64_t now_ns();     // CLOCK_MONOTONIC
uint32_t thread_id();  // OS thread id, cached per thread

enum class Severity : uint32_t { note = 1, lost = 2, ended = 3 };
void report_loss(std::string_view source, std::string_view cause, uint64_t count = 1,
                 Severity severity = Severity::lost, uint64_t start = 0, uint64_t end = 0, uint32_t kind = 0);

// For backends whose library must not be called at exit any more (bounded exit flush): flush all, at most
// `ms`.
void flush_all(bool forced, uint32_t ms);

}  // namespace warpsight
