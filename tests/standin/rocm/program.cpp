// The program that is recorded: each argument is one step of its script.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "standin.h"

extern "C" {
hipError_t hipInit(unsigned);
hipError_t hipSetDevice(int);
hipError_t hipGetDevice(int*);
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t);
hipError_t hipLaunchKernel_spt(const void*, dim3, dim3, void**, size_t, hipStream_t);
hipError_t hipExtLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t, hipEvent_t, hipEvent_t,
                              int);
hipError_t hipModuleLaunchKernel(void*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                                 hipStream_t, void**, void**);
hipError_t hipExtModuleLaunchKernel(void*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t,
                                    hipStream_t, void**, void**);
struct hipLaunchConfig_t {
  dim3 grid, block;
  size_t shared;
  hipStream_t stream;
  void* attributes;
  unsigned count;
};
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t*, const void*, void**);
hipError_t hipGraphLaunch(void*, hipStream_t);
hipError_t hipStreamBeginCapture(hipStream_t, int);
hipError_t hipStreamEndCapture(hipStream_t, void**);
hipError_t hipMemcpy(void*, const void*, size_t, int);
hipError_t hipMemcpyAsync(void*, const void*, size_t, int, hipStream_t);
hipError_t hipMemset(void*, int, size_t);
hipError_t hipMalloc(void**, size_t);
hipError_t hipFree(void*);
hipError_t hipDeviceSynchronize();
hipError_t hipStreamSynchronize(hipStream_t);
hipError_t hipStreamCreate(hipStream_t*);
hipError_t hipStreamDestroy(hipStream_t);
hipError_t hipEventRecord(hipEvent_t, hipStream_t);
hipError_t hipEventSynchronize(hipEvent_t);
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned);
hipError_t hipNotInAnyList(int);
void roctxMarkA(const char*);
int roctxRangePushA(const char*);
int roctxRangePop();
uint64_t roctxRangeStartA(const char*);
void roctxRangeStop(uint64_t);
int standin_listening();
int standin_delivered();
}

namespace {

std::vector<hipStream_t> g_streams = {nullptr};  // 0 is the default stream

void launch(const char* name, long count, hipStream_t stream) {
  for (long i = 0; i < count; ++i) hipLaunchKernel(name, {4, 2, 1}, {128, 1, 1}, nullptr, 256, stream);
}

// Every form of launch, each with a kernel of its own name.
void forms() {
  hipLaunchKernel("plain", {4, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr);
  hipLaunchKernel_spt("per_thread", {4, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr);
  hipExtLaunchKernel("extended", {4, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr, nullptr, nullptr, 0);
  hipModuleLaunchKernel(const_cast<char*>("of_module"), 4, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr);
  hipExtModuleLaunchKernel(const_cast<char*>("in_items"), 512, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr);
  const hipLaunchConfig_t config = {{4, 1, 1}, {128, 1, 1}, 0, nullptr, nullptr, 0};
  hipLaunchKernelExC(&config, "configured", nullptr);
}

void events() {
  hipEventRecord(reinterpret_cast<void*>(0xe0), g_streams.back());
  hipStreamWaitEvent(g_streams.back(), reinterpret_cast<void*>(0xe0), 0);
  hipEventSynchronize(reinterpret_cast<void*>(0xe0));
}

void ranges() {
  roctxRangePushA("outer");
  roctxRangePushA("inner");
  roctxMarkA("here");
  roctxRangePop();
  roctxRangePop();
  roctxRangeStop(roctxRangeStartA("across"));
}

void child() {
  const pid_t pid = fork();
  if (pid == 0) {
    launch("of_child", 5, nullptr);
    hipDeviceSynchronize();
    exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) exit(71);
}

// Waits for what must come; the test's own limit ends it otherwise.
template <class Condition>
void until(Condition condition) {
  while (!condition()) usleep(2000);
}

void step(const std::string& text) {
  std::vector<std::string> words;
  for (size_t from = 0; from <= text.size();) {
    size_t to = text.find(':', from);
    if (to == std::string::npos) to = text.size();
    words.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  const auto number = [&](size_t at, long otherwise) {
    return at < words.size() ? atol(words[at].c_str()) : otherwise;
  };
  const std::string& verb = words[0];
  if (verb == "init")
    hipInit(0);
  else if (verb == "device")
    hipSetDevice(static_cast<int>(number(1, 0)));
  else if (verb == "ask") {
    int device;
    hipGetDevice(&device);
  } else if (verb == "launch")
    launch(strdup(words[1].c_str()), number(2, 1), g_streams.at(static_cast<size_t>(number(3, 0))));
  else if (verb == "forms")
    forms();
  else if (verb == "fail")
    launch("fails", 1, nullptr);
  else if (verb == "graph")
    for (long i = 0; i < number(1, 1); ++i) hipGraphLaunch(nullptr, g_streams.back());
  else if (verb == "capture") {
    hipStreamBeginCapture(nullptr, 0);
    launch("captured", number(1, 1), nullptr);
    hipStreamEndCapture(nullptr, nullptr);
  } else if (verb == "stream") {
    g_streams.push_back(nullptr);
    hipStreamCreate(&g_streams.back());
  } else if (verb == "destroy") {
    hipStreamDestroy(g_streams.back());
    g_streams.pop_back();
  } else if (verb == "copy")
    hipMemcpy(reinterpret_cast<void*>(0xd00), reinterpret_cast<void*>(0x500),
              static_cast<size_t>(number(1, 64)), static_cast<int>(number(2, 1)));
  else if (verb == "copy_async")
    hipMemcpyAsync(reinterpret_cast<void*>(0xd00), reinterpret_cast<void*>(0x500),
                   static_cast<size_t>(number(1, 64)), static_cast<int>(number(2, 1)), g_streams.back());
  else if (verb == "set")
    hipMemset(reinterpret_cast<void*>(0xe00), 0, static_cast<size_t>(number(1, 64)));
  else if (verb == "malloc") {
    void* place;
    hipMalloc(&place, static_cast<size_t>(number(1, 64)));
    hipFree(place);
  } else if (verb == "events")
    events();
  else if (verb == "ranges")
    ranges();
  else if (verb == "unlisted")
    hipNotInAnyList(1);
  else if (verb == "sync")
    hipDeviceSynchronize();
  else if (verb == "wait")
    hipStreamSynchronize(g_streams.back());
  else if (verb == "threads") {
    std::vector<std::thread> all;
    for (long i = 0; i < number(1, 2); ++i)
      all.emplace_back(
          [&, i] { launch(strdup(("thread" + std::to_string(i)).c_str()), number(2, 10), nullptr); });
    for (std::thread& one : all) one.join();
  } else if (verb == "fork")
    child();
  else if (verb == "sleep")
    usleep(static_cast<useconds_t>(number(1, 100)) * 1000);
  else if (verb == "say") {
    puts(words[1].c_str());
    fflush(stdout);
  } else if (verb == "line")
    getchar();
  else if (verb == "until")
    until([&] { return standin_listening() == number(1, 1); });
  else if (verb == "delivered")
    until(standin_delivered);
  else if (verb == "kill")
    kill(getpid(), SIGKILL);
  else if (verb == "exit")
    exit(static_cast<int>(number(1, 0)));
  else {
    fprintf(stderr, "program: no step %s\n", verb.c_str());
    exit(72);
  }
}

}  // namespace

int main(int count, char** steps) {
  for (int i = 1; i < count; ++i) step(steps[i]);
  return 0;
}
