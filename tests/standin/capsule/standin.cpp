// A stand-in for libcuda and libcupti under the library that cuts kernels out: device memory is the host's,
// kernels are functions here that run at their launch, and every call tells the subscriber at its start and
// end; like the driver, it refuses calls on threads without a current context. Its program, run by
// standin_main, takes steps as arguments (see there). STANDIN, a comma list: ptx (the module is loaded as
// PTX), no_subscribe, no_room (no memory for copies within the GPU), managed, foreign
// (any address is of memory that the driver knows), slow_first (the host needs 100 ms for the first launch of
// a kernel, loaded or not), apart (variables of a module are allocations of their own), twins (modules are
// loaded as those of libraries are, without a call; another has a kernel of the same name).
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../cubin.h"

#undef cuMemcpy
#undef cuEventElapsedTime
#undef cuGraphInstantiate
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuDeviceGetUuid
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

bool asked(const char* what) {
  const char* text = getenv("STANDIN");
  return text != nullptr && strstr(text, what) != nullptr;
}

struct Kernel {
  const char* name;
  std::vector<std::pair<size_t, size_t>> params;
  std::function<void(const char*)> run;  // on the packed parameters
};

struct Node {
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel;
  CUDA_MEMSET_NODE_PARAMS set;
  std::vector<void*> pointers;
  Node* after;
};
struct Graph {
  std::vector<Node*> nodes;
};

CUpti_CallbackFunc g_callback = nullptr;
std::mutex g_enabled_mutex;  // protects `g_enabled`
std::set<std::pair<int, uint32_t>> g_enabled;
bool enabled(CUpti_CallbackDomain domain, uint32_t id) {
  std::lock_guard<std::mutex> lock(g_enabled_mutex);
  return g_enabled.count({domain, id}) != 0;
}
std::map<uint64_t, uint64_t> g_memory;  // size by address
char* g_variables = nullptr;            // of the module
constexpr uint64_t kScale = 0, kLimits = 64, kTarget = 128;
const CUcontext kContext = reinterpret_cast<CUcontext>(0x1000);
const CUmodule kModule = reinterpret_cast<CUmodule>(0x2000);

template <class T>
T at(const char* packed, size_t offset) {
  T value;
  memcpy(&value, packed + offset, sizeof value);
  return value;
}

// A launch on a thread of its own that is under way while the program ends.
std::atomic<bool> g_slow{false}, g_launching{false}, g_exiting{false};

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

const volatile uint32_t* g_opened = nullptr;  // what the last gate waits for, and until when
uint32_t g_gate = 0;
bool gated() { return g_opened != nullptr && *g_opened != g_gate; }
void close_gate(const char* p) { g_opened = at<const volatile uint32_t*>(p, 0), g_gate = at<uint32_t>(p, 8); }

float g_milliseconds = 0.5f;  // that the last fill took: its value; -1: it hangs, -2: it fails
CUresult state_of_work() {
  return g_milliseconds == -1 || gated() ? CUDA_ERROR_NOT_READY
         : g_milliseconds == -2          ? CUDA_ERROR_ILLEGAL_ADDRESS
                                         : CUDA_SUCCESS;
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

Kernel g_kernels[] = {
    {"add_listed", {{0, 8}, {8, 8}, {16, 4}}, add_listed},
    {"fill_target", {{0, 4}, {4, 4}}, fill_target},
    {"ws_scan", {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {40, 8}}, scan},
    {"ws_gate", {{0, 8}, {8, 4}, {16, 8}}, close_gate},
};

Kernel* kernel_of(CUfunction f) { return reinterpret_cast<Kernel*>(f); }
std::atomic<float> g_loading{0};  // milliseconds that the host needed for a first launch while the GPU waited
// Whether that happens only now.
bool load(CUfunction f) {
  static std::mutex mutex;  // protects `loaded`
  static std::set<CUfunction> loaded;
  std::lock_guard<std::mutex> lock(mutex);
  return loaded.insert(f).second;
}

// The same of its launches, for which the driver may have more to make.
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

std::atomic<int> g_told{0};  // callbacks

void tell(CUpti_CallbackDomain domain, uint32_t cbid, const void* data) {
  if (g_callback == nullptr || !enabled(domain, cbid)) return;
  ++g_told;
  g_callback(nullptr, domain, cbid, data);
}

void tell_loaded(uint32_t id, const char* image, size_t size) {
  CUpti_ModuleResourceData loaded = {};
  loaded.moduleId = id;
  loaded.pCubin = image;
  loaded.cubinSize = size;
  CUpti_ResourceData resource = {};
  resource.context = kContext;
  resource.resourceDescriptor = &loaded;
  tell(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &resource);
}

std::atomic<uint32_t> g_correlation{0};

// A call of the driver: tells its start, and its end when it is destroyed.
class Call {
 public:
  Call(uint32_t cbid, const char* name, const void* params, const char* symbol = nullptr) : cbid_(cbid) {
    data_.context = kContext;
    data_.correlationId = ++g_correlation;
    data_.functionName = name;
    data_.functionParams = params;
    data_.symbolName = symbol;
    data_.functionReturnValue = &result_;
    data_.callbackSite = CUPTI_API_ENTER;
    tell(CUPTI_CB_DOMAIN_DRIVER_API, cbid_, &data_);
  }
  ~Call() {
    data_.callbackSite = CUPTI_API_EXIT;
    tell(CUPTI_CB_DOMAIN_DRIVER_API, cbid_, &data_);
  }

 private:
  CUpti_CallbackData data_ = {};
  uint32_t cbid_;
  CUresult result_ = CUDA_SUCCESS;
};
thread_local CUcontext t_context = nullptr;  // this thread's current one
#define NEED_CONTEXT \
  if (t_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT
#define CALL(name, ...)                       \
  NEED_CONTEXT;                               \
  const name##_params params = {__VA_ARGS__}; \
  Call call(CUPTI_DRIVER_TRACE_CBID_##name, #name, &params)

std::string g_cubin;  // the program's module

std::mutex g_memory_mutex;  // protects `g_memory`

void* g_freed = nullptr;  // what was freed last is made again first

uint64_t map(uint64_t size) {
  std::lock_guard<std::mutex> lock(g_memory_mutex);
  void* made = mmap(g_freed, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_memory[reinterpret_cast<uint64_t>(made)] = size;
  return reinterpret_cast<uint64_t>(made);
}

}  // namespace

// --- CUPTI ---
EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  if (asked("no_subscribe")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  g_callback = callback;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId id) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id > CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz + 200)
    return CUPTI_ERROR_INVALID_PARAMETER;  // an older CUPTI than the library was built with
  std::lock_guard<std::mutex> lock(g_enabled_mutex);
  on != 0 ? (void)g_enabled.insert({domain, id}) : (void)g_enabled.erase({domain, id});
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackState(uint32_t* on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                         CUpti_CallbackId id) {
  return *on = enabled(domain, id) ? 1 : 0, CUPTI_SUCCESS;
}
// What a recording needs too; no work has a record.
#define DONE(name, arguments, ...) \
  EXPORT CUptiResult name arguments { return __VA_ARGS__; }
DONE(cuptiGetVersion, (uint32_t* version), *version = 26, CUPTI_SUCCESS)
DONE(cuptiUnsubscribe, (CUpti_SubscriberHandle), CUPTI_SUCCESS)
DONE(cuptiActivityEnable, (CUpti_ActivityKind), CUPTI_SUCCESS)
DONE(cuptiActivityDisable, (CUpti_ActivityKind), CUPTI_SUCCESS)
DONE(cuptiActivityFlushAll, (uint32_t), CUPTI_SUCCESS)
DONE(cuptiActivityGetNextRecord, (uint8_t*, size_t, CUpti_Activity**), CUPTI_ERROR_MAX_LIMIT_REACHED)
DONE(cuptiActivityGetNumDroppedRecords, (CUcontext, uint32_t, size_t* count), *count = 0, CUPTI_SUCCESS)
DONE(cuptiActivityRegisterCallbacks, (CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc),
     CUPTI_SUCCESS)
DONE(cuptiActivitySetAttribute, (CUpti_ActivityAttribute, size_t*, void*), CUPTI_SUCCESS)

// --- what only answers ---
#define ANSWER(name, arguments, ...) \
  EXPORT CUresult name arguments {   \
    __VA_ARGS__;                     \
    return CUDA_SUCCESS;             \
  }
#define IN_CONTEXT(name, arguments, ...) ANSWER(name, arguments, NEED_CONTEXT; __VA_ARGS__)
ANSWER(cuCtxGetCurrent, (CUcontext * c), *c = t_context)
ANSWER(cuCtxSetCurrent, (CUcontext c), t_context = c)
IN_CONTEXT(cuCtxGetDevice, (CUdevice * d), *d = 0)
IN_CONTEXT(cuCtxGetLimit, (size_t* v, CUlimit), *v = 1024)
ANSWER(cuDeviceGetName, (char* text, int size, CUdevice),
       snprintf(text, static_cast<size_t>(size), "Stand-in"))
ANSWER(cuDeviceGetAttribute, (int* v, CUdevice_attribute, CUdevice), *v = 9)
ANSWER(cuDeviceGetUuid_v2, (CUuuid*, CUdevice))
ANSWER(cuDeviceTotalMem_v2, (size_t* v, CUdevice), *v = 16ull << 30)
ANSWER(cuDriverGetVersion, (int* v), *v = 13000)
std::atomic<int> g_captures{0};  // under way, in other streams than work is put in
std::atomic<bool> g_broken{false};
IN_CONTEXT(cuCtxSynchronize, (), g_broken = g_broken || g_captures != 0)
IN_CONTEXT(cuEventCreate, (CUevent * e, unsigned), *e = reinterpret_cast<CUevent>(1))
ANSWER(cuEventElapsedTime, (float* v, CUevent, CUevent), *v = g_milliseconds + g_loading)
ANSWER(cuFuncGetAttribute, (int* v, CUfunction_attribute, CUfunction), *v = 0)
ANSWER(cuFuncLoad, (CUfunction f), load(f))
ANSWER(cuFuncGetModule, (CUmodule * m, CUfunction), *m = kModule)
ANSWER(cuFuncGetName, (const char** n, CUfunction f), *n = kernel_of(f)->name)
ANSWER(cuModuleGetFunctionCount, (unsigned* n, CUmodule), *n = 2)
ANSWER(cuModuleEnumerateFunctions, (CUfunction * f, unsigned n, CUmodule),
       for (unsigned i = 0; i < n; ++i) f[i] = reinterpret_cast<CUfunction>(&g_kernels[i]))
ANSWER(cuGraphDestroy, (CUgraph))
ANSWER(cuGraphKernelNodeGetAttribute, (CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue*))
ANSWER(cuGraphMemcpyNodeGetParams, (CUgraphNode, CUDA_MEMCPY3D*))
ANSWER(cuGraphNodeFindInClone, (CUgraphNode * n, CUgraphNode o, CUgraph), *n = o)
ANSWER(cuKernelGetAttribute, (int* v, CUfunction_attribute, CUkernel, CUdevice), *v = 0)
ANSWER(cuKernelGetFunction, (CUfunction * f, CUkernel k), *f = reinterpret_cast<CUfunction>(k))
ANSWER(cuKernelGetName, (const char** n, CUkernel k), *n = reinterpret_cast<Kernel*>(k)->name)
IN_CONTEXT(cuMemGetInfo_v2, (size_t* f, size_t* a), *a = 16ull << 30; *f = asked("no_room") ? 0 : 8ull << 30)
IN_CONTEXT(cuStreamCreate, (CUstream * s, unsigned), *s = reinterpret_cast<CUstream>(0x50))
ANSWER(cuStreamGetFlags, (CUstream, unsigned* v), *v = 0)
ANSWER(cuStreamGetPriority, (CUstream, int* v), *v = 0)
std::atomic<int> g_questions{0};  // about captures
ANSWER(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus* v), *v = CU_STREAM_CAPTURE_STATUS_NONE;
       ++g_questions)
ANSWER(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode*), ++g_questions)
EXPORT CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) {
  return asked("foreign") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuEventQuery(CUevent) { return state_of_work(); }
EXPORT CUresult cuEventSynchronize(CUevent) { return state_of_work(); }
EXPORT CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t* offset, size_t* size) {
  if (i >= kernel_of(f)->params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel_of(f)->params[i].first, *size = kernel_of(f)->params[i].second;
  return CUDA_SUCCESS;
}

// --- memory ---
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  CALL(cuMemAlloc_v2, address, size);
  *address = map(size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  CALL(cuMemAllocManaged, address, size, flags);
  *address = map(size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  CALL(cuMemFree_v2, address);
  std::lock_guard<std::mutex> lock(g_memory_mutex);
  munmap(g_freed = reinterpret_cast<void*>(address), g_memory[address]);
  g_memory.erase(address);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  CALL(cuMemHostAlloc, address, size, flags);
  return *address = malloc(size), CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void* address) { return free(address), CUDA_SUCCESS; }
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  CALL(cuMemcpyDtoDAsync_v2, to, from, size, stream);
  const auto variables = reinterpret_cast<CUdeviceptr>(g_variables);
  if (asked("apart") && from >= variables && from < variables + 4096 && size > 16)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  CALL(cuMemcpyDtoHAsync_v2, to, from, size, stream);
  memcpy(to, reinterpret_cast<void*>(from), size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  CALL(cuMemcpyHtoDAsync_v2, to, from, size, stream);
  memcpy(reinterpret_cast<void*>(to), from, size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  CALL(cuMemsetD8Async, to, value, count, stream);
  memset(reinterpret_cast<void*>(to), value, count);
  return CUDA_SUCCESS;
}

// --- streams, events, host functions ---
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  CALL(cuStreamSynchronize, stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  CALL(cuEventRecord, event, stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  CALL(cuStreamWaitEvent, stream, event, flags);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  CALL(cuStreamBeginCapture_v2, stream, mode);
  return ++g_captures, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  CALL(cuStreamEndCapture, stream, graph);
  return --g_captures, CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  CALL(cuLaunchHostFunc, stream, function, data);
  return CUDA_SUCCESS;
}

// --- modules and launches ---
EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (asked("twins") && image == g_cubin.data()) {
    const std::string twin = standin::cubin({"add_listed", "of_another_library"}, 't');
    tell_loaded(1, g_cubin.data(), g_cubin.size());
    tell_loaded(2, twin.data(), twin.size());
    return *module = kModule, CUDA_SUCCESS;
  }
  CALL(cuModuleLoadData, module, image);
  *module = kModule;
  const char* const source = static_cast<const char*>(image);
  if (strncmp(source, "// add_listed", 13) == 0) image = g_cubin.data();
  if (memcmp(image,
             "\x7f"
             "ELF",
             4) != 0)
    return CUDA_SUCCESS;  // PTX of ours
  tell_loaded(1, static_cast<const char*>(image), strtoull(getenv("CUBIN_BYTES"), nullptr, 10));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  for (Kernel& kernel : g_kernels)
    if (strcmp(kernel.name, name) == 0)
      return *function = reinterpret_cast<CUfunction>(&kernel), CUDA_SUCCESS;
  return CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* size, CUmodule, const char* name) {
  const std::map<std::string, std::pair<uint64_t, size_t>> known = {
      {"scale", {kScale, 4}}, {"limits", {kLimits, 16}}, {"target", {kTarget, 8}}};
  const auto found = known.find(name);
  if (found == known.end()) return CUDA_ERROR_NOT_FOUND;
  *address = reinterpret_cast<uint64_t>(g_variables) + found->second.first;
  *size = found->second.second;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void** arguments,
                               void** extra) {
  NEED_CONTEXT;
  const cuLaunchKernel_params params = {f, x, y, z, bx, by, bz, shared, stream, arguments, extra};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &params, kernel_of(f)->name);
  const bool slow = load(f) || (asked("slow_first") && first_launch(f));
  if (strncmp(kernel_of(f)->name, "ws_", 3) != 0) g_loading = slow && !gated() ? 100.0f : 0.0f;
  run(f, arguments);
  return CUDA_SUCCESS;
}

// --- graphs ---
EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph graph) { return *clone = graph, CUDA_SUCCESS; }
EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(graph)->nodes;
  *count = all.size();
  for (size_t i = 0; nodes != nullptr && i < all.size(); ++i)
    nodes[i] = reinterpret_cast<CUgraphNode>(all[i]);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return *type = reinterpret_cast<Node*>(node)->type, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* p) {
  return *p = reinterpret_cast<Node*>(node)->kernel, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* p) {
  return reinterpret_cast<Node*>(node)->kernel = *p, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p) {
  return *p = reinterpret_cast<Node*>(node)->set, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  Node* const after = reinterpret_cast<Node*>(node)->after;
  *count = after != nullptr ? 1 : 0;
  if (nodes != nullptr && after != nullptr) *nodes = reinterpret_cast<CUgraphNode>(after);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  CALL(cuGraphInstantiateWithFlags, exec, graph, flags);
  *exec = reinterpret_cast<CUgraphExec>(graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CALL(cuGraphLaunch, exec, stream);
  for (Node* node : reinterpret_cast<Graph*>(exec)->nodes) {
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) run(node->kernel.func, node->kernel.kernelParams);
    if (node->type == CU_GRAPH_NODE_TYPE_MEMSET)
      memset(reinterpret_cast<void*>(node->set.dst), static_cast<int>(node->set.value), node->set.width);
  }
  return CUDA_SUCCESS;
}

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

// Steps: add, big (add to a new output of 2 MiB), fill:VALUE, copy (to the device), pinned (the same from
// pinned memory), back (to the host), set,
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
    if (word == "big") {
      cuMemAlloc_v2(&program.out, 2u << 20);
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
