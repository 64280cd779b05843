// The runtime's life: start at the first sign of a GPU, stop on request, flush at exit, nothing in a forked
// child.
#include "runtime/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "cuda/cuda.h"
#include "ring/hot.h"
#include "ring/thread_hook.h"
#include "runtime/attach.h"
#include "runtime/identity.h"
#include "runtime/own_signals.h"
#include "runtime/settings.h"
#include "runtime/state.h"
#include "stacks/stacks.h"

namespace warpsight {

WARPSIGHT_HOT_DATA volatile bool g_recording = false;

namespace {

constexpr uint32_t kExitFlushMs = 2000;
constexpr uint32_t kRingEventTexts = 65536;  // of a flight recorder; later strings are written each time
uint32_t g_forks = 0;  // generations of processes since the library was loaded; invalidates cached thread ids

Runtime* const g_runtime = new Runtime;  // never destroyed: our thread uses it until the process is gone

Phase phase_of(const Runtime& r) { return r.phase.load(std::memory_order_acquire); }

// Whether rows are written at this moment.
bool records_now(const Runtime& r) { return r.wants_record && (!settings().capture_range || r.in_range); }

void publish_state() {
  ArenaHeader* header = arena();
  if (header)
    __atomic_store_n(&header->state, recording() ? kStateRecording : kStateDormant, __ATOMIC_RELEASE);
}

void set_phase(Runtime& r, Phase phase) { r.phase.store(phase, std::memory_order_release); }

// Waits under `lock` until our thread has served request `number`, or has exited; false after `ms`.
bool wait_served(Runtime& r, uint64_t number, uint32_t ms) {
  const timespec until = deadline_after(ms);
  while (r.requests.served < number && r.thread_alive) {
    if (pthread_cond_timedwait(&r.served, &r.lock, &until) == ETIMEDOUT) return false;
  }
  return true;
}

// Waits until the thread of an ended recording has exited, along with the state that CUPTI and the driver
// keep for it.
void join_ended(Runtime& r) {
  pthread_mutex_lock(&r.lock);
  const bool ended = r.joinable && !r.thread_alive;
  const pthread_t thread = r.thread;
  if (ended) r.joinable = false;
  pthread_mutex_unlock(&r.lock);
  if (ended) pthread_join(thread, nullptr);
}

// Waits for a recorder's current operation, and until recorders have left.
void leave() {
  Runtime& r = runtime();
  if (r.pid != getpid() || r.leaving) return;
  const bool locked = lock_within(&r.recorder_lock, kExitFlushMs);
  r.leaving = true;
  if (locked) pthread_mutex_unlock(&r.recorder_lock);
  if (phase_of(r) != Phase::running) return;
  pthread_mutex_lock(&r.lock);
  r.requests.leave = true;
  const uint64_t number = ++r.requests.asked;
  pthread_cond_signal(&r.woken);
  wait_served(r, number, kExitFlushMs);
  pthread_mutex_unlock(&r.lock);
}

void at_exit() {
  end_attach();
  Runtime& r = runtime();
  if (r.pid != getpid()) return;
  join_ended(r);
  if (phase_of(r) != Phase::running) return;
  pthread_mutex_lock(&r.lock);
  r.requests.exit = true;
  const uint64_t number = ++r.requests.asked;
  pthread_cond_signal(&r.woken);
  const bool served = wait_served(r, number, kExitFlushMs);
  pthread_mutex_unlock(&r.lock);
  join_ended(r);
  set_recording(false);
  if (!served && settings().verbose)
    fprintf(stderr, "warpsight: the last flush took more than 2 s; the rest is lost\n");
}

// In a forked child: the parent's recording does not apply. A child that uses a GPU itself starts its own,
// unless the parent's recorders were active: neither CUDA nor their state survives a fork.
void after_fork() {
  set_recording(false);
  Runtime& old = runtime();
  const bool never = old.recorders_started || phase_of(old) == Phase::disabled;
  ++g_forks;
  forget_arena();
  forget_thread_names(true);
  set_wait_handler(nullptr);
  forget_attach();
  close_connection(&old.connection);
  Runtime* fresh = new (&old) Runtime;  // the old vectors and strings leak: their state is unknown
  fresh->phase = never ? Phase::disabled : Phase::unstarted;
}

}  // namespace

void register_handlers() {
  static bool done = false;  // under `lock`, inherited by children like the handlers themselves
  if (done) return;
  done = true;
  pthread_atfork(nullptr, nullptr, after_fork);
  atexit(at_exit);
  at_quick_exit(at_exit);
}

namespace {

bool start_thread(Runtime& r) {
  const StartingThread starting;
  if (r.joinable) pthread_detach(r.thread);
  r.joinable = r.thread_alive = pthread_create(&r.thread, nullptr, worker_main, nullptr) == 0;
  return r.thread_alive;
}

void report_start_problems() {
  for (const std::string& complaint : settings_complaints()) {
    report_loss("settings", complaint, 1, Severity::note);
  }
  if (arena_blocks() < kBlockCapacity) {
    report_loss("ring",
                "the arena is smaller than usual (RLIMIT_FSIZE or RLIMIT_AS): " +
                    std::to_string(arena_blocks()) + " blocks",
                1, Severity::note);
  }
}

void say_refused(const std::string& path, int error, const std::string& reason) {
  if (error == EPERM && !reason.empty()) {
    fprintf(stderr, "warpsight: the launcher refused this process: %s\n", reason.c_str());
  } else if (settings().verbose) {
    fprintf(stderr, "warpsight: cannot record: %s: %s\n", path.c_str(), strerror(error));
  }
}

// The folder of a launcher's arenas, next to its socket.
std::string arena_folder(const std::string& socket) {
  return socket.substr(0, socket.rfind('/') + 1) + "arenas";
}

// Arena, connection, first rows, thread. 0 or an errno; on failure everything is as before.
int start(Runtime& r, const std::string& path) {
  set_full_policy(settings().on_full);
  if (settings().ring) set_event_text_limit(kRingEventTexts);
  ArenaHeader* header = create_arena(arena_folder(path).c_str());
  if (!header) return errno;
  std::string reason;
  const int error = connect_to_launcher(path, arena_fd(), header->arena, &r.connection, &reason);
  if (error) {
    say_refused(path, error, reason);
    close_connection(&r.connection);
    remove_arena_file();
    retire_arena();
    return error;
  }
  r.pid = getpid();
  r.launcher = path;
  r.requests = Requests{};
  register_handlers();
  set_thread_hook(write_own_thread_row);
  forget_thread_names(false);
  write_process_row();
  write_clock_row();
  report_start_problems();
  prepare_stacks();
  // From here on, a dormant process follows its launcher's control word, and records when told to.
  if (!settings().dormant) __atomic_fetch_or(&header->control, r.connection.control, __ATOMIC_ACQ_REL);
  const uint32_t control = __atomic_load_n(&header->control, __ATOMIC_ACQUIRE);
  r.wants_record = (control & kControlRecord) && !(control & kControlStop);
  r.in_range = false;
  set_recording(records_now(r));
  __atomic_store_n(&header->state, recording() ? kStateRecording : kStateDormant, __ATOMIC_RELEASE);
  if (!start_thread(r)) {
    set_recording(false);
    close_connection(&r.connection);
    remove_arena_file();
    retire_arena();
    return EAGAIN;
  }
  if (settings().verbose) fprintf(stderr, "warpsight: recording to %s\n", path.c_str());
  return 0;
}

bool start_once(Runtime& r) {
  pthread_mutex_lock(&r.lock);
  if (phase_of(r) == Phase::unstarted) {
    const std::string& path = settings().socket;
    if (path.empty() && settings().dormant) {
      register_handlers();
      set_phase(r, await_attach() ? Phase::stopped : Phase::disabled);  // whoever attaches starts us
      pthread_mutex_unlock(&r.lock);
      return false;
    }
    set_phase(r, !path.empty() && start(r, path) == 0 ? Phase::running : Phase::disabled);
  }
  const bool running = phase_of(r) == Phase::running;
  pthread_mutex_unlock(&r.lock);
  return running;
}

}  // namespace

Runtime::Runtime() {
  use_monotonic_clock(&served);
  use_monotonic_clock(&woken);
}

Runtime& runtime() { return *g_runtime; }

std::string recording_folder() {
  Runtime& r = runtime();
  pthread_mutex_lock(&r.lock);
  std::string folder = r.connection.raw_directory;  // NAME.warp/raw/ARENA
  pthread_mutex_unlock(&r.lock);
  for (int level = 0; level < 2; ++level) {
    const size_t slash = folder.rfind('/');
    folder.resize(slash == std::string::npos ? 0 : slash);
  }
  return folder;
}

std::string launcher_socket() {
  Runtime& r = runtime();
  pthread_mutex_lock(&r.lock);
  const std::string path = phase_of(r) == Phase::running ? r.launcher : std::string();
  pthread_mutex_unlock(&r.lock);
  return path;
}

WARPSIGHT_HOT uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint32_t thread_id() {
  static __thread uint32_t id = 0;
  static __thread uint32_t forks = 0;
  if (__builtin_expect(id == 0 || forks != g_forks, 0)) {
    id = static_cast<uint32_t>(syscall(SYS_gettid));
    forks = g_forks;
  }
  return id;
}

bool ensure_runtime() {
  Runtime& r = runtime();
  if (r.pid != 0 && r.pid != getpid()) return false;  // a child made without fork handlers
  const Phase phase = phase_of(r);
  if (phase == Phase::running) return true;
  return phase == Phase::unstarted && start_once(r);
}

int start_runtime(const char* path) {
  Runtime& r = runtime();
  if (r.pid != 0 && r.pid != getpid()) return ENOTSUP;
  join_ended(r);
  pthread_mutex_lock(&r.lock);
  const Phase phase = phase_of(r);
  int error = phase == Phase::running ? EALREADY : 0;
  if (phase == Phase::disabled && r.recorders_started) error = ENOTSUP;
  if (!error) {
    error = start(r, path);
    if (!error) set_phase(r, Phase::running);
  }
  pthread_mutex_unlock(&r.lock);
  if (error) return error;
  apply_record(r, r.wants_record);
  register_backends(true);  // before CUDA: a vendor's SDK may bring its own libcuda
  if (register_cuda_backend) register_cuda_backend();  // CUDA is loaded already: from the very first call on
  return 0;
}

int stop_runtime(uint32_t ms) {
  Runtime& r = runtime();
  if (r.pid != getpid() || phase_of(r) != Phase::running) return ENOTCONN;
  pthread_mutex_lock(&r.lock);
  r.requests.stop = true;
  const uint64_t number = ++r.requests.asked;
  pthread_cond_signal(&r.woken);
  const bool served = wait_served(r, number, ms);
  pthread_mutex_unlock(&r.lock);
  join_ended(r);
  return served ? 0 : ETIMEDOUT;
}

void apply_record(Runtime& r, bool record) {
  pthread_mutex_lock(&r.recorder_lock);
  r.wants_record = record;
  set_recording(records_now(r));
  for (Registered& each : r.recorders) {
    if (each.started == record || r.leaving) continue;
    each.started = record;
    if (record) {
      each.recorder->start();
    } else {
      each.recorder->stop();
    }
  }
  if (record && !r.recorders.empty()) r.recorders_started = true;
  publish_state();
  pthread_mutex_unlock(&r.recorder_lock);
}

bool switch_range(bool open, uint32_t ms) {
  Runtime& r = runtime();
  if (r.pid != getpid() || phase_of(r) != Phase::running) return false;
  if (!lock_within(&r.recorder_lock, ms)) return false;
  if (r.in_range != open) {
    r.in_range = open;
    if (!open) set_recording(false);
    for (Registered& each : r.recorders) {
      if (each.started) each.recorder->range(open);
    }
    set_recording(records_now(r));
    publish_state();
  }
  pthread_mutex_unlock(&r.recorder_lock);
  return true;
}

bool in_range() { return runtime().in_range; }

void watch_exit() { atexit(leave); }

void add_recorder(Recorder* recorder) {
  Runtime& r = runtime();
  pthread_mutex_lock(&r.recorder_lock);
  r.recorders.push_back({recorder, r.wants_record});
  if (r.wants_record) {
    r.recorders_started = true;
    recorder->start();
  }
  pthread_mutex_unlock(&r.recorder_lock);
}

void flush_all(bool forced, uint32_t ms) {
  Runtime& r = runtime();
  if (r.pid != getpid() || phase_of(r) != Phase::running) return;
  pthread_mutex_lock(&r.lock);
  const bool ours = r.thread_alive && pthread_equal(pthread_self(), r.thread);
  if (!ours) {
    r.requests.forced = r.requests.forced || forced;
    const uint64_t number = ++r.requests.asked;
    pthread_cond_signal(&r.woken);
    wait_served(r, number, ms);
  }
  pthread_mutex_unlock(&r.lock);
}

void report_loss(std::string_view source, std::string_view cause, uint64_t count, Severity severity,
                 uint64_t start, uint64_t end, uint32_t kind) {
  if (!arena()) return;
  Loss row = {};
  row.time = now_ns();
  row.start = start;
  row.end = end ? end : row.time;
  row.count = count;
  row.cause = intern(cause);
  row.source = intern(source);
  row.kind = kind;
  row.severity = static_cast<uint32_t>(severity);
  write(row);
  if (settings().verbose) {
    fprintf(stderr, "warpsight: %.*s: %.*s (%" PRIu64 ")\n", static_cast<int>(source.size()), source.data(),
            static_cast<int>(cause.size()), cause.data(), count);
  }
}

}  // namespace warpsight
