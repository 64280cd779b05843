// The kernels of the stand-in: functions of the host that run at their launch.
#include <unistd.h>

#include <set>

#include "driver.h"

namespace standin {

std::atomic<bool> g_slow{false}, g_launching{false}, g_exiting{false};
float g_milliseconds = 0.5f;
std::atomic<float> g_loading{0};

namespace {

const volatile uint32_t* g_opened = nullptr;  // what the last gate waits for, and until when
uint32_t g_gate = 0;

template <class T>
T at(const char* packed, size_t offset) {
  T value;
  memcpy(&value, packed + offset, sizeof value);
  return value;
}

void close_gate(const char* p) { g_opened = at<const volatile uint32_t*>(p, 0), g_gate = at<uint32_t>(p, 8); }

void add_listed(const char* p) {
  if (g_slow) {
    g_launching = true;
    while (!g_exiting) usleep(100);
    usleep(300'000);
  }
  auto* list = at<float**>(p, 0);
  for (int i = 0; i < at<int>(p, 16); ++i)
    at<float*>(p, 8)[i] =
        at<float>(g_variables, kScale) * (list[0][i] + list[1][i]) + at<int>(g_variables, kLimits);
}

void fill_target(const char* p) {
  g_milliseconds = at<float>(p, 4);
  for (int i = 0; i < at<int>(p, 0); ++i) at<float*>(g_variables, kTarget)[i] = at<float>(p, 4);
}

void scan(const char* p) {
  const auto* words = at<uint64_t*>(p, 0);
  const auto *begins = at<uint64_t*>(p, 16), *ends = at<uint64_t*>(p, 24);
  for (uint64_t i = 0; i < at<uint64_t>(p, 8); ++i)
    for (uint32_t block = 0; block < at<uint32_t>(p, 32); ++block)
      if (begins[block] <= words[i] && words[i] < ends[block]) at<uint32_t*>(p, 40)[block] = 1;
}

}  // namespace

Kernel g_kernels[kKernels] = {
    {"add_listed", {{0, 8}, {8, 8}, {16, 4}}, add_listed},
    {"fill_target", {{0, 4}, {4, 4}}, fill_target},
    {"ws_scan", {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {40, 8}}, scan},
    {"ws_gate", {{0, 8}, {8, 4}, {16, 8}}, close_gate},
};

bool load(CUfunction f) {
  static std::mutex mutex;  // protects `loaded`
  static std::set<CUfunction> loaded;
  std::lock_guard<std::mutex> lock(mutex);
  return loaded.insert(f).second;
}

bool first_launch(CUfunction f) {
  static std::mutex mutex;  // protects `launched`
  static std::set<CUfunction> launched;
  std::lock_guard<std::mutex> lock(mutex);
  return launched.insert(f).second;
}

void run(CUfunction f, void** params) {
  char packed[256] = {};
  for (size_t i = 0; i < kernel_of(f)->params.size(); ++i)
    memcpy(packed + kernel_of(f)->params[i].first, params[i], kernel_of(f)->params[i].second);
  kernel_of(f)->run(packed);
}

bool gated() { return g_opened != nullptr && *g_opened != g_gate; }

CUresult state_of_work() {
  return g_milliseconds == -1 || gated() ? CUDA_ERROR_NOT_READY
         : g_milliseconds == -2          ? CUDA_ERROR_ILLEGAL_ADDRESS
                                         : CUDA_SUCCESS;
}

}  // namespace standin
