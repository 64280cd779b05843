// The recorded program: every argument is one step.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cubin.h"
#include "standin.h"
#include "steps.h"

extern "C" CUresult cuDriverGetVersion(int*);
extern "C" CUresult cuCtxSynchronize();

using namespace standin;  // NOLINT

namespace {

constexpr auto kRuntime = CUPTI_CB_DOMAIN_RUNTIME_API;
constexpr auto kDriver = CUPTI_CB_DOMAIN_DRIVER_API;
constexpr uint32_t kStream = 7;
constexpr int kPatienceMs = 30000;

std::vector<std::string> split(const std::string& step, char separator = ':') {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t to = step.find(separator); to != std::string::npos; to = step.find(separator, from)) {
    parts.push_back(step.substr(from, to - from));
    from = to + 1;
  }
  parts.push_back(step.substr(from));
  return parts;
}

const char* kept(const std::string& text) {
  return strdup(text.c_str());
}  // CUPTI's names stay where they are

CUstream stream() { return reinterpret_cast<CUstream>(static_cast<uintptr_t>(kStream)); }

cudaLaunchKernel_v7000_params runtime_arguments() {
  cudaLaunchKernel_v7000_params params = {};
  params.gridDim = dim3(4);
  params.blockDim = dim3(128);
  params.stream = reinterpret_cast<cudaStream_t>(stream());
  return params;
}

void driver_launch(const char* name, uint32_t cbid) {
  cuLaunchKernel_params params = {};
  params.gridDimX = 4, params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 128, params.blockDimY = params.blockDimZ = 1;
  params.hStream = stream();
  Call call(kDriver, cbid, "cuLaunchKernel", &params, name);
  record_kernel(name, call.correlation(), kStream, 0);
}

// The file of 4 KiB that STANDIN_PROGRESS names: word 0 counts launches that have returned, word 15 ends
// `rate`.
uint64_t* progress() {
  static auto* shared = [] {
    const char* path = getenv("STANDIN_PROGRESS");
    const int file = path != nullptr ? open(path, O_RDWR) : -1;
    void* map = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                     file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    return static_cast<uint64_t*>(map);
  }();
  return shared;
}

void launch(const char* name, uint32_t cbid) {
  const cudaLaunchKernel_v7000_params params = runtime_arguments();
  {
    Call call(kRuntime, cbid, "cudaLaunchKernel", &params, name);
    driver_launch(name, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  }
  __atomic_fetch_add(&progress()[0], 1, __ATOMIC_RELAXED);
}

void driver_launch_ex(const char* name, unsigned cluster) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {cluster, 1, 1};
  CUlaunchConfig config = {};
  config.gridDimX = 4, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = cluster != 0 ? 1 : 0;
  const cuLaunchKernelEx_params params = {&config, nullptr, nullptr, nullptr};
  Call call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, "cuLaunchKernelEx", &params, name);
  record_kernel(name, call.correlation(), kStream, 0);
}

// As the CUDA runtime does: the driver's own look-up, itself found by dlsym.
void by_look_up(const char* name, int count) {
  using Look = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, CUstream, void**, void**);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto* look = reinterpret_cast<Look>(dlsym(driver, "cuGetProcAddress_v2"));
  void* found = nullptr;
  if (look == nullptr || look("cuLaunchKernel", &found, 13000, 0, nullptr) != CUDA_SUCCESS) _exit(75);
  for (int i = 0; i < count; ++i) {
    reinterpret_cast<Launch>(found)(reinterpret_cast<CUfunction>(const_cast<char*>(name)), 4, 1, 1, 128, 1, 1,
                                    0, stream(), nullptr, nullptr);
  }
}

// Every form once; the kernel's name is that of the form.
void all_forms() {
  launch("cudaLaunchKernel", CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  launch("cudaLaunchKernel_ptsz", CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000);
  launch("__cudaLaunchKernel", CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000);
  launch("__cudaLaunchKernel_ptsz", CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000);
  launch("cudaLaunchCooperativeKernel", CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000);
  driver_launch("cuLaunchKernel", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  driver_launch("cuLaunchKernel_ptsz", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz);
  driver_launch("cuLaunchCooperativeKernel", CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel);
  {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4);
    config.blockDim = dim3(128);
    config.attrs = &cluster;
    config.numAttrs = 1;
    const cudaLaunchKernelExC_v11060_params params = {&config, nullptr, nullptr};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060, "ExC", &params,
              "cudaLaunchKernelExC");
    driver_launch_ex("cudaLaunchKernelExC", 2);
  }
  driver_launch_ex("cuLaunchKernelEx", 0);
}

void copy(size_t bytes) {
  const cudaMemcpy_v3020_params params = {reinterpret_cast<void*>(0xd00), nullptr, bytes,
                                          cudaMemcpyHostToDevice};
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020, "cudaMemcpy", &params, nullptr);
  record_copy(bytes, call.correlation());
}

void set(size_t bytes) {
  const cudaMemset_v3020_params params = {reinterpret_cast<void*>(0xe00), 0, bytes};
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020, "cudaMemset", &params, nullptr);
  record_set(bytes, call.correlation());
}

void allocate(size_t bytes) {
  void* result = nullptr;
  const cudaMalloc_v3020_params params = {&result, bytes};
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, "cudaMalloc", &params, nullptr);
  result = reinterpret_cast<void*>(0xabc000);
}

void failing_launch() {
  const cudaLaunchKernel_v7000_params params = runtime_arguments();
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel", &params, "fails");
  cuLaunchKernel_params inner = {};
  Call driver_call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &inner, "fails");
  driver_call.set_result(CUDA_ERROR_INVALID_VALUE);
  call.set_result(cudaErrorInvalidValue);
}

void synchronise() {
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020, "cudaDeviceSynchronize", nullptr,
            nullptr);
  complete_everything();
  call.set_result(static_cast<int>(cuCtxSynchronize()));
  complete_everything();
  record_sync(call.correlation(), 0);
}

uint64_t microseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000u + static_cast<uint64_t>(now.tv_nsec) / 1000u;
}

// Launches at a steady rate, each batch completed before the next.
void at_rate(const char* name, long per_second, long milliseconds) {
  constexpr uint64_t kStep = 10000;  // microseconds
  const uint64_t began = microseconds();
  uint64_t launched = 0;
  const uint64_t end = began + static_cast<uint64_t>(milliseconds) * 1000u;
  for (uint64_t now = began; now < end && __atomic_load_n(&progress()[15], __ATOMIC_RELAXED) == 0;
       now = microseconds()) {
    const uint64_t due = (now - began) * static_cast<uint64_t>(per_second) / 1000000u;
    for (; launched < due; ++launched) launch(name, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    complete_everything();
    const uint64_t spent = microseconds() - now;
    if (spent < kStep) usleep(static_cast<useconds_t>(kStep - spent));
  }
  synchronise();
}

void compute(long milliseconds) {
  const uint64_t until = microseconds() + static_cast<uint64_t>(milliseconds) * 1000u;
  while (microseconds() < until) {
  }
}

template <class T>
T handle(uintptr_t number) {
  return reinterpret_cast<T>(number);
}

// A capture of one kernel, its instantiation, and launches of the result. Nodes: 100 captured, 200 its clone.
void graph(int launches) {
  CUpti_GraphData made = {};
  made.graph = handle<CUgraph>(8);
  made.node = handle<CUgraphNode>(100);
  resource(CUPTI_CBID_RESOURCE_GRAPH_CREATED, &made, nullptr);
  set_capturing(true);
  {
    const cudaLaunchKernel_v7000_params params = runtime_arguments();
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel", &params,
              "in_graph");
    cuLaunchKernel_params inner = {};
    Call driver_call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &inner, "in_graph");
    resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &made, nullptr);
  }
  set_capturing(false);
  {
    cudaGraphExec_t result = nullptr;
    const cudaGraphInstantiate_v12000_params params = {&result, nullptr, 0};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000, "cudaGraphInstantiate", &params,
              nullptr);
    CUpti_GraphData clone = {};
    clone.graph = handle<CUgraph>(9);
    clone.originalGraph = handle<CUgraph>(8);
    clone.node = handle<CUgraphNode>(200);
    clone.originalNode = handle<CUgraphNode>(100);
    resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, &clone, nullptr);
    resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, &clone, nullptr);
    result = handle<cudaGraphExec_t>(0x900);
  }
  for (int i = 0; i < launches; ++i) {
    const cudaGraphLaunch_v10000_params params = {handle<cudaGraphExec_t>(0x900), nullptr};
    Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, "cudaGraphLaunch", &params, nullptr);
    const cuGraphLaunch_params inner = {handle<CUgraphExec>(0x900), nullptr};
    Call driver_call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, "cuGraphLaunch", &inner, nullptr);
    if (kind_enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE))
      record_graph_launch(call.correlation());
    else
      record_kernel("in_graph", call.correlation(), kStream, 200);
  }
}

// A launch inside of a region of the program's own numbering.
void launch_numbered(uint64_t id) {
  const cudaLaunchKernel_v7000_params params = runtime_arguments();
  Call call(kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel", &params,
            "numbered");
  cuLaunchKernel_params inner = {};
  Call driver_call(kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &inner, "numbered");
  record_external_id(call.correlation(), id);
  record_kernel("numbered", call.correlation(), kStream, 0);
}

void in_threads(int threads, int count) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([count] {
      for (int i = 0; i < count; ++i) launch("threaded", CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    });
  }
  for (auto& thread : running) thread.join();
}

// cudaProfilerStart and cudaProfilerStop, which call the driver's.
void profiler(bool start) {
  Call call(kRuntime,
            start ? CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000
                  : CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000,
            "cudaProfiler", nullptr, nullptr);
  Call inner(kDriver,
             start ? CUPTI_DRIVER_TRACE_CBID_cuProfilerStart : CUPTI_DRIVER_TRACE_CBID_cuProfilerStop,
             "cuProfiler", nullptr, nullptr);
}

void fork_and_launch() {
  const pid_t child = fork();
  if (child == 0) {
    launch("in_child", CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) _exit(71);
}

// A child that does nothing, and is there for a while after this process has ended.
void leave_a_child() {
  if (fork() != 0) return;
  for (int stream = 0; stream < 3; ++stream) close(stream);
  sleep(20);
  _exit(0);
}

void* library() {
  static void* const handle = dlopen(getenv("WARPSIGHT_LIBRARY"), RTLD_NOW | RTLD_GLOBAL);
  return handle;
}

template <class Function>
Function* exported(const char* name) {
  auto* function = reinterpret_cast<Function*>(library() != nullptr ? dlsym(library(), name) : nullptr);
  if (function == nullptr) _exit(72);
  return function;
}

// The same inside of ranges of ever new names, a hundred a second, as programs number their steps.
void in_ranges(long per_second, long milliseconds) {
  auto* push = exported<int(const char*, const char*)>("ws_push");
  auto* pop = exported<int()>("ws_pop");
  const uint64_t until = microseconds() + static_cast<uint64_t>(milliseconds) * 1000u;
  for (long step = 0; microseconds() < until; ++step) {
    const uint64_t began = microseconds();
    push(("step " + std::to_string(step)).c_str(), nullptr);
    for (long i = 0; i < per_second / 100; ++i)
      launch("work", CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    pop();
    complete_everything();
    const uint64_t spent = microseconds() - began;
    if (spent < 10000) usleep(static_cast<useconds_t>(10000 - spent));
  }
  synchronise();
}

// Another CUPTI client without a subscriber: it puts its buffers in place of the recorder's.
void CUPTIAPI foreign_request(uint8_t** buffer, size_t* size, size_t* most) {
  *size = 1 << 16;
  *most = 0;
  *buffer = static_cast<uint8_t*>(calloc(1, *size));
}
void CUPTIAPI foreign_complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t) { free(buffer); }

bool callbacks_enabled() {
  uint32_t enabled = 0;
  return cuptiGetCallbackState(&enabled, nullptr, kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) ==
             CUPTI_SUCCESS &&
         enabled != 0;
}

void wait_until_recording() {
  for (int waited = 0; !callbacks_enabled(); waited += 5) {
    if (waited > kPatienceMs) _exit(73);
    usleep(5000);
  }
}

// A module with the kernels of a comma list; `filling` makes images with the same kernels differ.
void load_module(const std::string& kernels, uint32_t number, char filling) {
  const std::string image = kernels == "damaged" ? std::string(ELFMAG) + std::string(99, '\xee')
                                                 : cubin(split(kernels, ','), filling);
  CUpti_ModuleResourceData module = {};
  module.moduleId = number;
  module.cubinSize = image.size();
  module.pCubin = image.data();
  std::vector<const char*> names;
  const std::vector<std::string> all = split(kernels, ',');
  for (const std::string& name : all) names.push_back(name.c_str());
  checksum_image(image.data(), image.size(), names.data(), names.size());
  resource(CUPTI_CBID_RESOURCE_MODULE_LOADED, &module, nullptr);
}

void unload_module(uint32_t number) {
  CUpti_ModuleResourceData module = {};
  module.moduleId = number;
  resource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, &module, nullptr);
}

// Two kernels whose names CUPTI keeps at the same address, one after another: a module goes between them.
void reuse_name(const std::string& first, const std::string& second) {
  static char name[64];
  snprintf(name, sizeof name, "%s", first.c_str());
  for (int i = 0; i < 2; ++i) driver_launch(name, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  synchronise();
  unload_module(77);
  snprintf(name, sizeof name, "%s", second.c_str());
  driver_launch(name, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
}

void do_step(const std::vector<std::string>& step) {
  const std::string& what = step[0];
  const auto number = [&](size_t i) { return i < step.size() ? atol(step[i].c_str()) : 1; };
  const auto count = static_cast<int>(number(2));
  if (what == "init")
    cuInit(0), context_exists(), resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, nullptr, nullptr);
  else if (what == "destroy")
    resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, nullptr, nullptr);
  else if (what == "launch") {
    const char* name = kept(step[1]);
    for (int i = 0; i < count; ++i) launch(name, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  } else if (what == "numbered")
    launch_numbered(strtoull(step[1].c_str(), nullptr, 10));
  else if (what == "device_graph")
    record_device_graph();
  else if (what == "forms")
    all_forms();
  else if (what == "copy")
    copy(static_cast<size_t>(number(1)));
  else if (what == "set")
    set(static_cast<size_t>(number(1)));
  else if (what == "malloc")
    allocate(static_cast<size_t>(number(1)));
  else if (what == "fail")
    failing_launch();
  else if (what == "reused")
    reuse_name(step[1], step[2]);
  else if (what == "module")
    load_module(step[1], static_cast<uint32_t>(count), step.size() > 3 ? step[3][0] : 'a');
  else if (what == "unload")
    unload_module(static_cast<uint32_t>(number(1)));
  else if (what == "sync")
    synchronise();
  else if (what == "stuck") {  // stuck:MILLISECONDS, or for ever
    stuck_for(step.size() > 1 ? number(1) : -1);
    launch(kStuck, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  } else if (what == "looked_up")
    by_look_up(kept(step[1]), count);
  else if (what == "rate")
    at_rate(kept(step[1]), number(2), number(3));
  else if (what == "ranges")
    in_ranges(number(1), number(2));
  else if (what == "push")
    exported<int(const char*, const char*)>("ws_push")(step[1].c_str(), nullptr);
  else if (what == "pop")
    exported<int()>("ws_pop")();
  else if (what == "sleep")
    usleep(static_cast<useconds_t>(number(1)) * 1000u);
  else if (what == "compute")
    compute(number(1));
  else if (what == "fault")
    device_exception();
  else if (what == "poll")
    record_sync(0, 600);
  else if (what == "graph")
    graph(static_cast<int>(number(1)));
  else if (what == "threads")
    in_threads(static_cast<int>(number(1)), count);
  else if (what == "copies")
    copies();
  else if (what == "graph_copies")
    graph_copies();
  else if (what == "pools")
    pools();
  else if (what == "profiler_start")
    profiler(true);
  else if (what == "profiler_stop")
    profiler(false);
  else if (what == "fork")
    fork_and_launch();
  else if (what == "child")
    leave_a_child();
  else if (what == "start")
    exported<int(const char*)>("ws_start")(getenv("LATE_SOCKET"));
  else if (what == "inject_children")  // what ws.record does to the environment of a running program
    setenv("CUDA_INJECTION64_PATH", getenv("WARPSIGHT_LIBRARY"), 1);
  else if (what == "stop")
    exported<int()>("ws_stop")();
  else if (what == "flush")
    exported<int(uint32_t)>("ws_flush")(10000);
  else if (what == "foreign")
    cuptiActivityRegisterCallbacks(foreign_request, foreign_complete);
  else if (what == "foreign_end")
    setenv("STANDIN_FOREIGN_FINALIZE", "1", 1), cuptiFinalize();
  else if (what == "wait_recording")
    wait_until_recording();
  else if (what == "exit")
    exit(static_cast<int>(number(1)));
  else if (what == "_exit")
    _exit(static_cast<int>(number(1)));
  else if (what == "signal")
    raise(static_cast<int>(number(1)));
  else {
    fprintf(stderr, "no such step: %s\n", what.c_str());
    _exit(74);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) do_step(split(argv[i]));
  return 0;
}
