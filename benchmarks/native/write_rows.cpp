// What one row costs the thread that writes it, with a drainer at work. Built and run by write_rows.sh.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ring/drain.h"
#include "ring/ring.h"

namespace {

std::atomic<uint64_t> g_visits{0};  // of the drainer, finished

using Clock = std::chrono::steady_clock;

double nanoseconds_per(Clock::time_point start, uint64_t count) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / static_cast<double>(count);
}

// Median over `rounds` of the cost of a call; rounds are short enough for the rings not to fill.
template <class Call>
void measure(const char* what, Call call) {
  constexpr uint64_t kRound = 20000;
  constexpr int kRounds = 201;
  std::vector<double> costs;
  double first = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (uint64_t i = 0; i < kRound; ++i) call(i);
    costs.push_back(nanoseconds_per(start, kRound));
    if (round == 0) first = costs[0];
    const uint64_t seen = g_visits;
    while (g_visits < seen + 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the rings are empty again
  }
  std::sort(costs.begin(), costs.end());
  printf("%-46s %6.1f ns (first round %5.1f, worst tenth %5.1f)\n", what, costs[kRounds / 2], first,
         costs[kRounds * 9 / 10]);
}

}  // namespace

int main(int, char** arguments) {
  if (!warpsight::create_arena()) return 1;
  warpsight::Drainer* drainer = warpsight::Drainer::open(warpsight::arena_fd(), arguments[1], 64u << 20);
  if (!drainer) return 1;
  std::atomic<bool> done{false};
  std::thread visits([&] {
    while (!done) {
      drainer->poll(false);
      ++g_visits;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  measure("write(Api), 56 bytes", [](uint64_t i) {
    warpsight::Api row = {};
    row.start = i;
    row.correlation = static_cast<uint32_t>(i);
    warpsight::write(row);
  });
  measure("write(Kernel), 72 bytes", [](uint64_t i) {
    warpsight::Kernel row = {};
    row.start = i;
    warpsight::write(row);
  });
  measure("write_row(Api), size at run time", [](uint64_t i) {
    warpsight::Api row = {};
    row.start = i;
    warpsight::write_row(warpsight::Api::kKind, &row, sizeof(row), warpsight::OnFull::drop);
  });
  measure("intern_c of a known 300-character name", [](uint64_t) {
    static const std::string name(300, 'k');
    warpsight::intern_c(name.c_str());
  });
  measure("intern of a known 20-character name", [](uint64_t) { warpsight::intern("vectorized_elementwi"); });
  measure("intern_shape of a known shape", [](uint64_t i) {
    warpsight::Shape shape = {};
    shape.grid_x = static_cast<int32_t>(i % 8);
    warpsight::intern_shape(shape);
  });
  done = true;
  visits.join();
  drainer->finish();
  delete drainer;
  const warpsight::RingStatistics rows = warpsight::ring_statistics();
  printf("%llu rows written, %llu dropped\n", static_cast<unsigned long long>(rows.written),
         static_cast<unsigned long long>(rows.dropped));
  return 0;
}
