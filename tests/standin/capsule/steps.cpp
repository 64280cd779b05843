// The program that work is cut out of, and its steps.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "driver.h"

using namespace standin;

namespace {

// The program: two inputs, a list of their addresses, an output, and memory that nothing points to.
struct Program {
  static constexpr int kCount = 1000;
  CUdeviceptr a = 0, b = 0, list = 0, out = 0, other = 0;
  CUfunction add = nullptr, fill = nullptr;
  int count = kCount;

  void make() {
    const size_t bytes = kCount * sizeof(float);
    for (CUdeviceptr* block : {&a, &b, &out, &other}) cuMemAlloc_v2(block, bytes);
    asked("managed") ? cuMemAllocManaged(&list, 64, 1) : cuMemAlloc_v2(&list, 64);
    std::vector<float> values(kCount);
    for (int i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
    for (CUdeviceptr block : {a, b}) cuMemcpyHtoDAsync_v2(block, values.data(), bytes, nullptr);
    const CUdeviceptr addresses[] = {a, b, reinterpret_cast<uint64_t>(g_variables) + kLimits + 4};
    cuMemcpyHtoDAsync_v2(list, addresses, sizeof addresses, nullptr);
    memcpy(g_variables + kTarget, &other, sizeof other);
    std::ifstream file(getenv("CUBIN"), std::ios::binary);
    g_cubin.assign((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    CUmodule module;
    cuModuleLoadData(&module, asked("ptx") ? "// add_listed\n.version 8.0\n" : g_cubin.data());
    cuModuleGetFunction(&add, module, "add_listed");
    cuModuleGetFunction(&fill, module, "fill_target");
  }
  void launch_add() {
    void* arguments[] = {&list, &out, &count};
    cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr);
  }
  void launch_fill(float value) {
    void* arguments[] = {&count, &value};
    cuLaunchKernel(fill, 8, 1, 1, 128, 1, 1, 0, reinterpret_cast<CUstream>(0x77), arguments, nullptr);
  }
  void graph(CUgraphNodeType last) {
    static Graph graph;
    auto* const set = new Node{CU_GRAPH_NODE_TYPE_MEMSET, {}, {out, 0, 0, 1, 400, 1}, {}, nullptr};
    auto* const kernel = new Node{CU_GRAPH_NODE_TYPE_KERNEL,
                                  {add, 8, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr, nullptr},
                                  {},
                                  {&list, &out, &count},
                                  set};
    kernel->kernel.kernelParams = kernel->pointers.data();
    auto* const end = new Node{last, {}, {}, {}, kernel};
    graph.nodes = {end, kernel, set};  // not in their order
    CUgraphExec exec;
    cuGraphInstantiateWithFlags(&exec, reinterpret_cast<CUgraph>(&graph), 0);
    graph.nodes = {set, kernel, end};
    cuGraphLaunch(exec, nullptr);
  }
};

}  // namespace

// Steps: add, big (add to a new output of 9 MiB), huge (of 80 MiB, once the recorder has pinned memory for
// it), fill:VALUE, copy (to the device), pinned (the same from pinned memory), back (to the host), set,
// wait, events, host (a host function), free, graph, child (a graph with one inside), range:NAME and end:NAME
// (as warpsight's Python functions tell them), threads:N (launches on N threads), leave (this thread has no
// context any more), remake (the output is freed and made again), capture and captured (begin and end of one
// in another stream), exit (while a thread launches), questions (prints how often captures were asked about,
// and how many callbacks there were), signal (USR1, and waits until copies are followed), make:FILE,
// await:FILE, quit (without exit handlers).
EXPORT int standin_main(int argc, char** argv) {
  g_variables = reinterpret_cast<char*>(map(4096));
  g_memory.clear();
  const float scale = 2;
  const int limit = 1;
  memcpy(g_variables + kScale, &scale, sizeof scale);
  memcpy(g_variables + kLimits, &limit, sizeof limit);
  void* injected = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (injected == nullptr) return fprintf(stderr, "%s\n", dlerror()), 2;
  reinterpret_cast<int (*)()>(dlsym(injected, "InitializeInjection"))();
  using Tell = void (*)(const char*);
  const std::string path = getenv("CUDA_INJECTION64_PATH");
  void* const cuts =
      dlopen((path.substr(0, path.rfind('/') + 1) + "libwarpsight_capsule.so").c_str(), RTLD_NOW);
  const auto begins = reinterpret_cast<Tell>(dlsym(cuts, "warpsight_capsule_begin"));
  const auto ends = reinterpret_cast<Tell>(dlsym(cuts, "warpsight_capsule_end"));
  cuCtxSetCurrent(kContext);
  Program program;
  program.make();
  float value = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string step = argv[i];
    const size_t colon = step.find(':');
    const std::string word = step.substr(0, colon),
                      rest = colon == std::string::npos ? "" : step.substr(colon + 1);
    if (word == "big" || word == "huge") {
      cuMemAlloc_v2(&program.out, word == "big" ? 9u << 20 : 80u << 20);
      for (int wait = 0; word == "huge" && g_pinned < 2; ++wait) {
        if (wait == 3000) return 3;
        usleep(10'000);
      }
      program.launch_add();
    }
    if (word == "add") program.launch_add();
    if (word == "fill") program.launch_fill(static_cast<float>(atof(rest.c_str())));
    if (word == "copy") cuMemcpyHtoDAsync_v2(program.a + 40, &value, sizeof value, nullptr);
    if (word == "pinned") {
      void* buffer = nullptr;
      cuMemHostAlloc(&buffer, 4096, 0);
      cuMemcpyHtoDAsync_v2(program.a, memset(buffer, 0, 4096), 400, nullptr);
    }
    if (word == "back") cuMemcpyDtoHAsync_v2(&value, program.out, sizeof value, nullptr);
    if (word == "set") cuMemsetD8Async(program.b, 0, 400, nullptr);
    if (word == "wait") cuStreamSynchronize(nullptr);
    if (word == "events") {
      cuEventRecord(reinterpret_cast<CUevent>(0x99), nullptr);
      cuStreamWaitEvent(reinterpret_cast<CUstream>(0x77), reinterpret_cast<CUevent>(0x99), 0);
    }
    if (word == "host") cuLaunchHostFunc(nullptr, nullptr, nullptr);
    if (word == "free") cuMemFree_v2(program.out);
    if (word == "remake") {
      const CUdeviceptr before = program.out;
      cuMemFree_v2(program.out);
      cuMemAlloc_v2(&program.out, Program::kCount * sizeof(float));
      if (program.out != before) return fprintf(stderr, "made elsewhere\n"), 3;
    }
    if (word == "capture")
      cuStreamBeginCapture_v2(reinterpret_cast<CUstream>(0x88), CU_STREAM_CAPTURE_MODE_RELAXED);
    if (word == "captured") {
      CUgraph graph;
      cuStreamEndCapture(reinterpret_cast<CUstream>(0x88), &graph);
      printf("the capture %s\n", g_broken ? "is broken" : "is whole");
    }
    if (word == "exit") {
      std::thread([&program] {
        cuCtxSetCurrent(kContext);
        g_slow = true;
        program.launch_add();
      }).detach();
      while (!g_launching) usleep(100);
      atexit([] { g_exiting = true; });  // before the library's own, as it is the last
      exit(0);
    }
    if (word == "graph") program.graph(CU_GRAPH_NODE_TYPE_EMPTY);
    if (word == "child") program.graph(CU_GRAPH_NODE_TYPE_GRAPH);
    if (word == "range") begins(rest.c_str());
    if (word == "end") ends(rest.c_str());
    if (word == "threads") {
      std::vector<std::thread> threads;
      for (int n = 0; n < atoi(rest.c_str()); ++n)
        threads.emplace_back([&program] {
          cuCtxSetCurrent(kContext);
          program.launch_add();
        });
      for (auto& thread : threads) thread.join();
    }
    if (word == "leave") cuCtxSetCurrent(nullptr);
    if (word == "questions") printf("asked %d times, told %d\n", g_questions.load(), g_told.load());
    if (word == "signal") {
      raise(SIGUSR1);
      while (!enabled(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2)) usleep(100);
    }
    if (word == "make") std::ofstream(rest.c_str());
    while (word == "await" && access(rest.c_str(), F_OK) != 0) usleep(1000);
    if (word == "quit") _exit(5);
  }
  printf("ran\n");
  return 0;
}
