// Threads that write as fast as they can while a drainer visits; what was accepted and dropped is printed as
// JSON.
//   ring_stress DIRECTORY THREADS ROWS POLICY(newest|oldest|wait) VISIT_MICROSECONDS [GENERATIONS]
// -1 microseconds: a single visit, after ten rows of the only thread. Each generation is a set of new
// threads. Row i of a thread has start = i and correlation = the thread's number.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ring/drain.h"
#include "ring/ring.h"

namespace {

std::atomic<uint64_t> g_accepted{0};
std::atomic<uint64_t> g_refused{0};

#ifdef PLANTED_RACE
uint64_t g_planted = 0;  // what ThreadSanitizer must find: every thread adds to it, and nothing orders them
#endif

void write_rows(uint32_t number, uint64_t rows) {
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < rows; ++i) {
    warpsight::Shape shape = {};
    shape.grid_x = static_cast<int32_t>(i % 100);
    const std::string name = "kernel " + std::to_string(i % 257);
    warpsight::Api row = {};
    row.start = i;
    row.correlation = number;
    row.name = warpsight::intern_c(name.c_str());
    row.shape = warpsight::intern_shape(shape);
    accepted += warpsight::write(row);
#ifdef PLANTED_RACE
    ++g_planted;
#endif
  }
  g_accepted += accepted;
  g_refused += rows - accepted;
}

void run_threads(uint32_t first, uint32_t threads, uint64_t rows) {
  std::vector<std::thread> running;
  for (uint32_t i = 0; i < threads; ++i) running.emplace_back(write_rows, first + i, rows);
  for (std::thread& thread : running) thread.join();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) return 2;
  const uint32_t threads = static_cast<uint32_t>(atoi(arguments[2]));
  const uint64_t rows = strtoull(arguments[3], nullptr, 10);
  const std::string policy = arguments[4];
  const int pause = atoi(arguments[5]);
  const uint32_t generations = count > 6 ? static_cast<uint32_t>(atoi(arguments[6])) : 1;
  if (policy == "oldest") warpsight::set_full_policy(warpsight::FullPolicy::drop_oldest);
  if (policy == "wait") warpsight::set_full_policy(warpsight::FullPolicy::wait);
  if (!warpsight::create_arena(nullptr)) return 1;
  // Segments of 1 MiB, so that rotation happens all the time.
  warpsight::Drainer* drainer = warpsight::Drainer::open(warpsight::arena_fd(), arguments[1], 1 << 20);
  if (!drainer) return 1;
  if (pause < 0) {
    write_rows(0, 10);
    drainer->poll(true);
    write_rows(0, rows - 10);
  }
  std::atomic<bool> done{pause < 0};
  std::thread visits([&] {
    for (int visit = 0; !done; ++visit) {
      drainer->poll(visit % 3 == 0);
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
    }
  });
  for (uint32_t generation = 0; pause >= 0 && generation < generations; ++generation) {
    run_threads(generation * threads, threads, rows);
  }
  done = true;
  visits.join();
  drainer->finish();
  const uint64_t rings = drainer->statistic(3);
  delete drainer;
  printf("{\"accepted\": %llu, \"refused\": %llu, \"rings\": %llu, \"dropped\": %llu}\n",
         static_cast<unsigned long long>(g_accepted), static_cast<unsigned long long>(g_refused),
         static_cast<unsigned long long>(rings),
         static_cast<unsigned long long>(warpsight::ring_statistics().dropped));
  return 0;
}
