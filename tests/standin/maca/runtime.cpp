// A stand-in for libmcruntime: enough of MACA's runtime for a program to launch, copy and wait, and a log of
// what really happened (MACA_LOG, a line of JSON each) for tests to compare a trace with.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "hooks.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

Hooks standin_hooks = {};  // visible by its declaration

namespace {

constexpr uint32_t kRuntimeDomain = 2;
constexpr int kSuccess = 0, kInvalidValue = 1;
constexpr uint64_t kStep = 37;  // kernels of one program take ever different times

struct Named {
  uint32_t id;
  const char* name;
};
// The ids of MACA 3.5, as far as public code names them; those from 900 on are made up.
constexpr Named kFunctions[] = {
    {18, "mcDeviceSynchronize"},
    {46, "mcStreamSynchronize"},
    {47, "mcStreamWaitEvent"},
    {56, "mcLaunchKernel"},
    {60, "mcModuleLaunchKernel"},
    {74, "mcEventRecord"},
    {76, "mcEventSynchronize"},
    {107, "mcMalloc"},
    {108, "mcFree"},
    {118, "mcMemcpy"},
    {119, "mcMemcpyAsync"},
    {146, "mcMemset"},
    {19, "mcGetDevice"},
    {900, "mcStreamBeginCapture"},
    {901, "mcStreamEndCapture"},
    {902, "mcGraphInstantiate"},
    {903, "mcGraphLaunch"},
};

std::atomic<bool> g_context{false};
std::atomic<uint32_t> g_correlation{0};
std::atomic<uint64_t> g_kernels{0};
std::mutex g_lock;       // protects the GPU's timeline and the log
uint64_t g_free_at = 0;  // when the GPU has done what it was given, on its clock
thread_local bool t_captures = false;
const char* g_captured = nullptr;  // the kernel in the one graph there is

uint64_t monotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t born() {
  static const uint64_t value = monotonic();
  return value;
}

double rate() {
  static const double value = 1 + static_cast<double>(standin_option("drift_ppm", 0)) / 1e6;
  return value;
}

// CLOCK_MONOTONIC of a time of the GPU's clock: what the log says.
uint64_t host_time(uint64_t device) {
  const auto offset = static_cast<uint64_t>(standin_option("offset", 1000));
  return born() + static_cast<uint64_t>(static_cast<double>(device - offset) / rate());
}

void log_line(const char* text, int length) {
  static const int file = [] {
    const char* path = getenv("MACA_LOG");
    return path != nullptr ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  }();
  if (file >= 0 && write(file, text, static_cast<size_t>(length)) != length) _exit(76);
}

void log_work(const char* kind, const Work& work) {
  char line[512];
  const int length = snprintf(
      line, sizeof line,
      "{\"kind\": \"%s\", \"pid\": %d, \"name\": \"%s\", \"correlation\": %u, \"stream\": %u, \"bytes\": "
      "%llu, "
      "\"start\": %llu, \"duration\": %llu, \"grid\": %u, \"block\": %u}\n",
      kind, static_cast<int>(getpid()), work.name != nullptr ? work.name : "", work.correlation, work.stream,
      static_cast<unsigned long long>(work.bytes), static_cast<unsigned long long>(host_time(work.start)),
      static_cast<unsigned long long>(work.end - work.start), work.grid.x, work.block.x);
  log_line(line, length);
}

void log_call(const char* name, uint32_t correlation) {
  char line[256];
  const int length = snprintf(line, sizeof line,
                              "{\"kind\": \"call\", \"pid\": %d, \"name\": \"%s\", \"correlation\": %u}\n",
                              static_cast<int>(getpid()), name, correlation);
  log_line(line, length);
}

// A call of the program: construct at entry; the destructor is the exit.
class Call {
 public:
  explicit Call(uint32_t id, const char* kernel = nullptr) : id_(id) {
    data_.name = standin_function(id);
    data_.kernel = kernel;
    data_.result = &result_;
    data_.tools_word = &word_;
    data_.context_id = 1;
    data_.correlation = ++g_correlation;
    tell(0);
  }
  ~Call() {
    tell(1);
    log_call(data_.name, data_.correlation);
  }
  uint32_t correlation() const { return data_.correlation; }
  int end(int result) { return result_ = result; }

 private:
  void tell(uint32_t site) {
    data_.site = site;
    if (standin_hooks.call != nullptr) standin_hooks.call(kRuntimeDomain, id_, &data_);
  }
  CallData data_ = {};
  uint32_t id_;
  uint64_t word_ = 0;
  int result_ = 0;
};

// One after the other, as a GPU with one queue does it.
Work on_timeline(Work work, uint64_t duration) {
  std::lock_guard<std::mutex> guard(g_lock);
  const uint64_t now = standin_clock();
  work.start = now > g_free_at ? now : g_free_at;
  work.end = g_free_at = work.start + duration;
  return work;
}

void run_kernel(const char* name, uint32_t correlation, uint32_t stream, Dim3 grid, Dim3 block,
                uint64_t node) {
  Work work = {};
  work.name = name;
  work.correlation = correlation;
  work.stream = stream;
  work.grid = grid;
  work.block = block;
  work.graph_node = node;
  work = on_timeline(work, 1000 + kStep * (g_kernels++ % 100));
  log_work("kernel", work);
  if (standin_hooks.kernel != nullptr) standin_hooks.kernel(work);
}

uint32_t stream_id(const void* stream) {
  return stream == nullptr ? 7 : static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream));
}

void make_context() { g_context = true; }

}  // namespace

EXPORT bool standin_context() { return g_context; }

EXPORT uint64_t standin_clock() {
  const auto offset = static_cast<uint64_t>(standin_option("offset", 1000));
  return offset + static_cast<uint64_t>(static_cast<double>(monotonic() - born()) * rate());
}

EXPORT long standin_option(const char* name, long otherwise) {
  const char* text = getenv("MACA_STANDIN");
  const size_t length = strlen(name);
  while (text != nullptr && *text != 0) {
    if (strncmp(text, name, length) == 0 && text[length] == '=') return atol(text + length + 1);
    text = strchr(text, ',');
    if (text != nullptr) ++text;
  }
  return otherwise;
}

EXPORT const char* standin_function(uint32_t id) {
  for (const auto& one : kFunctions) {
    if (one.id == id) return one.name;
  }
  return nullptr;
}

EXPORT int mcInit(unsigned) { return born(), kSuccess; }
EXPORT int mcDriverGetVersion(int* version) { return *version = 3050, kSuccess; }
EXPORT int mcRuntimeGetVersion(int* version) { return *version = 3053, kSuccess; }
EXPORT int mcGetDeviceCount(int* count) { return *count = 1, kSuccess; }
EXPORT int mcGetDevice(int* device) {
  Call call(19);
  return *device = 0, call.end(kSuccess);
}
EXPORT int mcDeviceGetName(char* name, int size, int) {
  snprintf(name, static_cast<size_t>(size), "MetaX stand-in");
  return kSuccess;
}
EXPORT int mcDeviceGetPCIBusId(char* text, int size, int) {
  snprintf(text, static_cast<size_t>(size), "0000:0e:00.0");
  return kSuccess;
}
EXPORT int mcMalloc(void** memory, size_t bytes) {
  make_context();
  Call call(107);
  *memory = malloc(bytes);
  return call.end(*memory != nullptr ? kSuccess : kInvalidValue);
}
EXPORT int mcFree(void* memory) {
  Call call(108);
  free(memory);
  return call.end(kSuccess);
}
// Functions of the stand-in are their names.
EXPORT int mcLaunchKernel(const void* function, Dim3 grid, Dim3 block, void**, size_t, void* stream) {
  make_context();
  const char* name = static_cast<const char*>(function);
  Call call(56, name);
  if (t_captures)
    g_captured = name;
  else if (strncmp(name, "failing", 7) == 0)
    return call.end(kInvalidValue);
  else
    run_kernel(name, call.correlation(), stream_id(stream), grid, block, 0);
  return call.end(kSuccess);
}
EXPORT int mcMemcpy(void* to, const void* from, size_t bytes, int kind) {
  make_context();
  Call call(118);
  memcpy(to, from, bytes);
  Work work = {};
  work.correlation = call.correlation();
  work.stream = 7;
  work.bytes = bytes;
  work.copy_kind = static_cast<uint8_t>(kind);
  work = on_timeline(work, bytes);
  log_work("memcpy", work);
  if (standin_hooks.copy != nullptr) standin_hooks.copy(work);
  return call.end(kSuccess);
}
EXPORT int mcMemset(void* to, int value, size_t bytes) {
  make_context();
  Call call(146);
  memset(to, value, bytes);
  Work work = {};
  work.correlation = call.correlation();
  work.stream = 7;
  work.bytes = bytes;
  work.value = static_cast<uint32_t>(value);
  work = on_timeline(work, bytes);
  log_work("memset", work);
  if (standin_hooks.set != nullptr) standin_hooks.set(work);
  return call.end(kSuccess);
}
EXPORT int mcDeviceSynchronize() {
  Call call(18);
  return call.end(kSuccess);
}
EXPORT int mcStreamSynchronize(void*) {
  Call call(46);
  return call.end(kSuccess);
}
EXPORT int mcStreamBeginCapture(void*, int) {
  Call call(900);
  t_captures = true;
  return call.end(kSuccess);
}
EXPORT int mcStreamEndCapture(void*, void** graph) {
  Call call(901);
  t_captures = false;
  *graph = &g_captured;
  return call.end(kSuccess);
}
EXPORT int mcGraphLaunch(void*, void* stream) {
  Call call(903);
  run_kernel(g_captured, call.correlation(), stream_id(stream), {4, 1, 1}, {64, 1, 1}, 5);
  return call.end(kSuccess);
}
