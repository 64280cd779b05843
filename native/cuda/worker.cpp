#include "cuda/worker.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "cuda/buffers.h"
#include "cuda/counters.h"
#include "cuda/cubins.h"
#include "cuda/functions.h"
#include "cuda/machine.h"
#include "cuda/own_threads.h"
#include "runtime/own_signals.h"
#include "runtime/runtime.h"
#include "runtime/timed_wait.h"
#include "stacks/waiter.h"

namespace warpsight {
namespace {

constexpr uint32_t kIdleWaitMs = 500;

pthread_mutex_t g_lock =
    PTHREAD_MUTEX_INITIALIZER;  // protects the drain numbers and the decoder between sessions
pthread_cond_t g_drained = PTHREAD_COND_INITIALIZER;
uint64_t g_drains_wanted = 0, g_drains_done = 0;
bool g_started = false;
// Used by the worker while it decodes, under g_decoding. Never destroyed: the worker outlives destructors.
Decoder& g_decoder = *new Decoder;
pthread_mutex_t g_decoding = PTHREAD_MUTEX_INITIALIZER;  // protects g_decoder; held for one buffer at a time
std::atomic<uint64_t> g_dropped{0};                      // records CUPTI dropped and we have not reported
std::atomic<bool> g_parked{false};                       // the process exits: CUPTI may be gone at any moment

void count_dropped() {
  size_t dropped = 0;
  if (cupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped != 0) {
    g_dropped.fetch_add(dropped, std::memory_order_relaxed);
  }
}

void decode_completed() {
  Buffer* buffer = take_completed();
  if (buffer == nullptr) return;
  relax_capture_mode();
  while (buffer != nullptr) {
    Buffer* next = buffer->next;
    pthread_mutex_lock(&g_decoding);
    g_decoder.decode(buffer->memory, buffer->valid);
    pthread_mutex_unlock(&g_decoding);
    recycle(buffer);
    buffer = next;
  }
  count_dropped();
}

void* run(void*) {
  pthread_setname_np(pthread_self(), "warpsight-cupti");
  for (;;) {
    wait_for_completed(counter_window_ms(kIdleWaitMs));
    while (g_parked.load(std::memory_order_acquire)) pause();
    pthread_mutex_lock(&g_lock);
    const uint64_t wanted = g_drains_wanted;
    pthread_mutex_unlock(&g_lock);
    decode_completed();
    write_cubins();
    collect_counters();
    find_passes();
    pthread_mutex_lock(&g_lock);
    g_drains_done = wanted;
    pthread_cond_broadcast(&g_drained);
    pthread_mutex_unlock(&g_lock);
  }
  return nullptr;
}

}  // namespace

bool start_worker() {
  if (g_started) return true;
  prepare_wake();
  use_monotonic_clock(&g_drained);
  const StartingThread starting;
  pthread_t thread;
  g_started = pthread_create(&thread, nullptr, run, nullptr) == 0;
  if (g_started) pthread_detach(thread);
  return g_started;
}

void begin_worker_session(uint32_t cupti_version) {
  pthread_mutex_lock(&g_decoding);
  g_decoder.begin_session(cupti_version);
  pthread_mutex_unlock(&g_decoding);
}

bool drain_worker(uint32_t milliseconds) {
  const timespec until = deadline_after(milliseconds);
  pthread_mutex_lock(&g_lock);
  const uint64_t wanted = ++g_drains_wanted;
  wake_worker();
  int result = 0;
  while (g_drains_done < wanted && result == 0) result = pthread_cond_timedwait(&g_drained, &g_lock, &until);
  const bool done = g_drains_done >= wanted;
  pthread_mutex_unlock(&g_lock);
  return done;
}

void park_worker() { g_parked.store(true, std::memory_order_release); }

uint64_t take_unknown_modules() {
  pthread_mutex_lock(&g_decoding);
  const uint64_t kernels = g_decoder.take_unknown_modules();
  pthread_mutex_unlock(&g_decoding);
  return kernels;
}

void report_worker_loss() {
  count_dropped();
  const uint64_t dropped = g_dropped.exchange(0);
  if (dropped != 0) {
    report_loss(profiler_source(),
                std::string(profiler_name()) +
                    " had no buffer for these records: they came faster than they could be taken",
                dropped);
  }
  pthread_mutex_lock(&g_decoding);
  g_decoder.report();
  pthread_mutex_unlock(&g_decoding);
}

}  // namespace warpsight
