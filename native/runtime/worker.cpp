// Our one background thread: control word, periodic flush, clocks, and draining when the launcher is gone.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "cuda/cuda.h"
#include "directives/ranges.h"
#include "runtime/identity.h"
#include "runtime/state.h"
#include "runtime/ticks.h"

namespace warpsight {

namespace {

constexpr int kPollMs = 10;
constexpr uint64_t kMs = 1000000;
constexpr uint64_t kClockEveryNs = 10000 * kMs;
constexpr uint64_t kThreadsEveryNs = 1000 * kMs;
constexpr uint64_t kCheckpointEveryNs = 1000 * kMs;
// A launcher that has closed the connection may still be draining; this long after its last visit it is not.
constexpr uint64_t kDrainerSilentNs = 500 * kMs;

struct Deadlines {
  uint64_t flush = 0;
  uint64_t threads = 0;
  uint64_t clock = 0;
  uint64_t checkpoint = 0;
};

bool due(uint64_t* deadline, uint64_t now, uint64_t period) {
  if (now < *deadline) return false;
  *deadline = now + period;
  return true;
}

template <class T>
T load(const T* value) {
  return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

void flush_recorders(Runtime& r, bool forced) {
  pthread_mutex_lock(&r.recorder_lock);
  for (const Registered& each : r.recorders) {
    if (each.started) each.recorder->flush(forced);
  }
  pthread_mutex_unlock(&r.recorder_lock);
}

void tell_recorders(Runtime& r, void (Recorder::*what)()) {
  pthread_mutex_lock(&r.recorder_lock);
  for (const Registered& each : r.recorders) {
    if (each.started) (each.recorder->*what)();
  }
  pthread_mutex_unlock(&r.recorder_lock);
}

void tick_recorders(Runtime& r) {
  pthread_mutex_lock(&r.recorder_lock);
  for (const Registered& each : r.recorders) {
    if (!each.started || r.leaving) continue;
    each.recorder->flush(false);
    each.recorder->tick();
  }
  pthread_mutex_unlock(&r.recorder_lock);
}

// No descriptor is involved: a program that closes or reuses all of them must not confuse us.
void sleep_until_woken(Runtime& r) {
  const timespec until = deadline_after(kPollMs);
  pthread_mutex_lock(&r.lock);
  while (r.requests.asked == r.requests.served &&
         pthread_cond_timedwait(&r.woken, &r.lock, &until) != ETIMEDOUT) {
  }
  pthread_mutex_unlock(&r.lock);
}

void drain_ourselves() { runtime().drainer->poll(false); }

// A launcher that closed the connection after its drainer's last visit needs nothing more.
bool launcher_finished(const ArenaHeader* header) {
  return load(&header->drainer) == 0 && load(&header->heartbeat) != 0;
}

// Takes over from a launcher that is gone, when it said where to.
void take_over(Runtime& r, uint64_t now) {
  const ArenaHeader* header = arena();
  if (r.drainer || r.connection.raw_directory.empty() || !header) return;
  const uint32_t launcher = load(&header->drainer);
  const uint64_t silent = now - load(&header->heartbeat);
  const bool dead = launcher && kill(static_cast<pid_t>(launcher), 0) != 0 && errno == ESRCH;
  if (!dead && silent < kDrainerSilentNs) return;
  r.drainer = Drainer::open(arena_fd(), r.connection.raw_directory.c_str(), 64u << 20);
  if (!r.drainer) {
    fprintf(stderr, "warpsight: the launcher is gone and %s cannot be written: recording ends\n",
            r.connection.raw_directory.c_str());
    r.connection.raw_directory.clear();
    return;
  }
  set_wait_handler(drain_ourselves);
  report_loss("runtime", "the launcher is gone; the process drains its rings itself", 1, Severity::note, now);
  if (settings().verbose)
    fprintf(stderr, "warpsight: the launcher is gone, draining to %s\n", r.connection.raw_directory.c_str());
}

// Follows the control word; true if it requests a permanent stop.
bool follow_control(Runtime& r, ArenaHeader* header) {
  const uint32_t control = load(&header->control);
  if (control == load(&header->control_ack)) return false;
  const bool stop = control & kControlStop;
  if (!stop) apply_record(r, control & kControlRecord);
  __atomic_store_n(&header->control_ack, control, __ATOMIC_RELEASE);
  return stop;
}

void answer_flush(Runtime& r, ArenaHeader* header) {
  const uint32_t asked = load(&header->flush_request);
  if (asked == load(&header->flush_done)) return;
  flush_recorders(r, asked == load(&header->forced_flush));
  __atomic_store_n(&header->flush_done, asked, __ATOMIC_RELEASE);
}

// Serves the requests of other threads; true if this thread should end.
bool serve(Runtime& r) {
  pthread_mutex_lock(&r.lock);
  const Requests requests = r.requests;
  r.requests.forced = r.requests.leave = false;
  pthread_mutex_unlock(&r.lock);
  if (requests.asked != requests.served) {
    if (requests.leave && !requests.stop) tell_recorders(r, &Recorder::leaving);
    if (requests.exit && !requests.stop) tell_recorders(r, &Recorder::exiting);
    const bool only_leaves = requests.leave && !requests.forced && !requests.exit;
    if (!requests.stop && !only_leaves) flush_recorders(r, requests.forced || requests.exit);
    if (requests.stop || requests.exit) return true;
    pthread_mutex_lock(&r.lock);
    r.requests.served = requests.asked;
    pthread_cond_broadcast(&r.served);
    pthread_mutex_unlock(&r.lock);
  }
  return false;
}

void periodic(Runtime& r, Deadlines* deadlines, uint64_t now) {
  prefault_rings();
  if (r.wants_record) measure_ticks();
  if (r.wants_record && due(&deadlines->flush, now, settings().flush_ms * kMs)) {
    register_backends(false);
    if (register_cuda_backend) register_cuda_backend();  // CUDA may be loaded long after us
    tick_recorders(r);
  }
  if (recording() && due(&deadlines->threads, now, kThreadsEveryNs)) refresh_thread_rows();
  if (due(&deadlines->clock, now, kClockEveryNs)) write_clock_row();
  if (r.drainer) {
    r.drainer->poll(due(&deadlines->checkpoint, now, kCheckpointEveryNs));
  }
}

// At the end: if the launcher died just now, its drainer is not silent long enough yet to be sure.
void wait_to_take_over(Runtime& r, const ArenaHeader* header) {
  const uint64_t until = now_ns() + kDrainerSilentNs + 50 * kMs;
  while (!r.drainer && !launcher_finished(header) && now_ns() < until &&
         !r.connection.raw_directory.empty()) {
    take_over(r, now_ns());
    const timespec pause = {0, 20 * static_cast<long>(kMs)};
    if (!r.drainer) nanosleep(&pause, nullptr);
  }
}

// Does everything the recording still needs, then notifies waiters that this thread is done. False if it must
// not exit before the process does.
bool wind_up(Runtime& r, bool exiting, bool stopped) {
  ArenaHeader* header = arena();
  if (!exiting) apply_record(r, false);
  set_recording(false);
  report_unheard_directives();
  refresh_thread_rows();
  write_clock_row();
  close_thread_rings();
  __atomic_store_n(&header->state, exiting ? kStateExited : kStateStopped, __ATOMIC_RELEASE);
  if (!stopped && launcher_hung_up(r.connection)) wait_to_take_over(r, header);
  if (r.drainer) {
    if (r.drainer->finish() >= 0) remove_arena_file();
    delete r.drainer;
    r.drainer = nullptr;
    set_wait_handler(nullptr);
  }
  pthread_mutex_lock(&r.lock);
  if (!exiting) {
    retire_arena();
    close_connection(&r.connection);
  }
  r.requests.served = r.requests.asked;
  r.thread_alive = false;
  const bool stays = exiting || r.leaving;
  if (stays) r.joinable = false;
  r.phase.store(exiting ? Phase::disabled : Phase::stopped, std::memory_order_release);
  pthread_cond_broadcast(&r.served);
  pthread_mutex_unlock(&r.lock);
  return !stays;
}

}  // namespace

void* worker_main(void*) {
  Runtime& r = runtime();
  pthread_setname_np(pthread_self(), "warpsight");
  ArenaHeader* header = arena();
  Deadlines deadlines;
  bool launcher_gone = false;
  bool stop = false;
  bool end = false;
  while (!stop && !end) {
    sleep_until_woken(r);
    const uint64_t now = now_ns();
    stop = follow_control(r, header);
    answer_flush(r, header);
    if (!launcher_gone) launcher_gone = launcher_hung_up(r.connection);
    if (launcher_gone && !stop && !r.drainer) {
      stop = launcher_finished(header);
      if (!stop) take_over(r, now);
    }
    periodic(r, &deadlines, now);
    end = serve(r);
  }
  // The process ends by itself, and asks for what there is, in a moment.
  while (r.leaving && !end && !(end = serve(r))) sleep_until_woken(r);
  pthread_mutex_lock(&r.lock);
  const bool exiting = r.requests.exit;
  pthread_mutex_unlock(&r.lock);
  const bool may_end = wind_up(r, exiting, stop);
  // CUPTI and the driver keep state for every thread that calls them, and free it when that thread exits.
  // While the process exits they free the rest, so this thread stays until the process is gone.
  while (!may_end) pause();
  return nullptr;
}

}  // namespace warpsight
