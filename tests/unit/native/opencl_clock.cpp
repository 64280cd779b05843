// Drives DeviceClock with clocks whose offset is known; prints what failed, exits with the number of
// failures.
#include "opencl/clock.h"

#include <cstdio>
#include <cstdlib>

#include "runtime/runtime.h"

namespace warpsight {
cl_icd_dispatch g_cl;
__thread Cursor* t_cursors;
uint64_t g_epoch;
static uint64_t g_now = 5000000000;
static Clock g_row;
static int g_rows;
uint64_t now_ns() { return g_now += 100; }
bool write_row(uint16_t, const void* row, uint32_t bytes, OnFull) {
  memcpy(&g_row, row, bytes);
  ++g_rows;
  return true;
}
}  // namespace warpsight

using namespace warpsight;

static int g_failures = 0;
static void expect(bool holds, const char* what) {
  if (!holds) printf("%s\n", what);
  g_failures += !holds;
}

static constexpr int64_t kOffset = 4000000000;  // host - device

static bool learn(DeviceClock& clock, uint64_t host, uint64_t call_ns, int64_t offset) {
  uint64_t device = host - offset;
  DeviceTimes times{device + call_ns / 2, device + call_ns, device + call_ns + 1000, device + call_ns + 3000};
  return clock.learn(times, {host, host + call_ns, host + call_ns + 50000});
}

static int64_t error(const DeviceClock& clock, int64_t offset) {
  return llabs(static_cast<int64_t>(clock.to_host(1000) - 1000) - offset);
}

int main() {
  DeviceClock clock(nullptr, 3);
  learn(clock, 5000000000, 100000, kOffset);
  expect(error(clock, kOffset) <= 50000, "one slow call bounds the offset by its length");
  learn(clock, 5001000000, 2000, kOffset);
  expect(error(clock, kOffset) <= 1100, "a short call narrows it");
  learn(clock, 5002000000, 90000, kOffset);
  expect(error(clock, kOffset) <= 1300, "a slow call does not widen it again");
  int64_t offset = kOffset;
  for (int i = 0; i < 1000; ++i) learn(clock, 5003000000 + i * 10000000ull, 2000, offset += 300);  // 30 ppm
  expect(error(clock, offset) <= 5000, "it follows a drift");
  learn(clock, 16000000000, 2000, offset + 1000000000);
  expect(error(clock, offset + 1000000000) <= 1100, "it starts again after a jump");
  expect(!clock.learn({0, 0, 0, 0}, {1, 2, 3}), "timestamps of zero are refused");
  expect(!clock.learn({1, 2, 9, 5}, {1, 2, 3}), "an end before the start is refused");
  clock.report(true);
  expect(g_rows == 1 && g_row.device == 3 && g_row.uncertainty >= 1000, "the reading is reported");
  clock.report(true);
  expect(g_rows == 1, "and not twice");
  return g_failures;
}
