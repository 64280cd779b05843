// The recorded program: every argument is one step. It links to the runtime, as compiled MACA programs do.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hooks.h"

extern "C" {
int mcInit(unsigned);
int mcGetDevice(int*);
int mcMalloc(void**, size_t);
int mcFree(void*);
int mcLaunchKernel(const void*, Dim3, Dim3, void**, size_t, void*);
int mcMemcpy(void*, const void*, size_t, int);
int mcMemset(void*, int, size_t);
int mcDeviceSynchronize();
int mcStreamSynchronize(void*);
int mcStreamBeginCapture(void*, int);
int mcStreamEndCapture(void*, void**);
int mcGraphLaunch(void*, void*);
}

namespace {

void launch(const char* name, int count) {
  for (int i = 0; i < count; ++i) {
    mcLaunchKernel(name, {4, 2, 1}, {64, 1, 1}, nullptr, 256, reinterpret_cast<void*>(uintptr_t{9}));
  }
}

void copy(size_t bytes) {
  std::vector<char> host(bytes, 'x');
  void* device = nullptr;
  mcMalloc(&device, bytes);
  mcMemcpy(device, host.data(), bytes, 1);
  mcMemset(device, 3, bytes);
  mcFree(device);
}

void graph(int launches) {
  void* made = nullptr;
  mcStreamBeginCapture(nullptr, 0);
  launch("in_graph", 1);
  mcStreamEndCapture(nullptr, &made);
  for (int i = 0; i < launches; ++i) mcGraphLaunch(made, nullptr);
}

void in_threads(int threads, int count) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) running.emplace_back([count] { launch("threaded", count); });
  for (auto& thread : running) thread.join();
}

void ask_device() {
  int device = -1;
  mcGetDevice(&device);
}

void in_child() {
  const pid_t child = fork();
  if (child == 0) {
    launch("in_child", 1);
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) _exit(71);
}

// Hands everything over, so that what comes next may end the program in any way.
void flush() {
  void* library = dlopen(getenv("WARPSIGHT_LIBRARY"), RTLD_NOW | RTLD_GLOBAL);
  auto* function =
      library != nullptr ? reinterpret_cast<int (*)(uint32_t)>(dlsym(library, "ws_flush")) : nullptr;
  if (function == nullptr) _exit(72);
  function(10000);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string step = argv[i];
    const std::string what = step.substr(0, step.find(':'));
    const std::string rest = what.size() < step.size() ? step.substr(what.size() + 1) : "";
    const std::string name = rest.substr(0, rest.find(':'));
    const int number = atoi(rest.c_str());
    const int count = name.size() < rest.size() ? atoi(rest.c_str() + name.size() + 1) : 1;
    if (what == "launch")
      launch(strdup(name.c_str()), count);
    else if (what == "copy")
      copy(static_cast<size_t>(number));
    else if (what == "sync")
      mcStreamSynchronize(nullptr), mcDeviceSynchronize();
    else if (what == "graph")
      graph(number);
    else if (what == "threads")
      in_threads(number, count);
    else if (what == "fork")
      in_child();
    else if (what == "sleep")
      usleep(static_cast<useconds_t>(number) * 1000u);
    else if (what == "device")
      ask_device();
    else if (what == "flush")
      flush();
    else if (what == "signal")
      raise(number);
    else if (what == "exit")
      exit(number);
    else
      return fprintf(stderr, "no such step: %s\n", what.c_str()), 74;
  }
  return 0;
}
