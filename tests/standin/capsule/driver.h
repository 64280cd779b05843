// What the parts of the stand-in share: its kernels, its device memory, and who is told of calls.
//
// A stand-in for libcuda and libcupti under the library that cuts kernels out: device memory is the host's,
// kernels are functions here that run at their launch, and every call tells the subscriber at its start and
// end; like the driver, it refuses calls on threads without a current context. Its program, run by
// standin_main, takes steps as arguments (steps.cpp). STANDIN, a comma list: ptx (the module is loaded as
// PTX), no_subscribe, no_room (no memory for copies within the GPU), managed, foreign
// (any address is of memory that the driver knows), slow_first (the host needs 100 ms for the first launch of
// a kernel, loaded or not), apart (variables of a module are allocations of their own), twins (modules are
// loaded as those of libraries are, without a call; another has a kernel of the same name).
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#undef cuMemcpy
#undef cuEventElapsedTime
#undef cuGraphInstantiate
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuDeviceGetUuid
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace standin {

inline bool asked(const char* what) {
  const char* text = getenv("STANDIN");
  return text != nullptr && strstr(text, what) != nullptr;
}

inline const CUcontext kContext = reinterpret_cast<CUcontext>(0x1000);
inline const CUmodule kModule = reinterpret_cast<CUmodule>(0x2000);

// --- kernels.cpp ---
struct Kernel {
  const char* name;
  std::vector<std::pair<size_t, size_t>> params;
  std::function<void(const char*)> run;  // on the packed parameters
};

constexpr int kKernels = 4;
extern Kernel g_kernels[kKernels];
inline Kernel* kernel_of(CUfunction f) { return reinterpret_cast<Kernel*>(f); }
// A launch on a thread of its own that is under way while the program ends.
extern std::atomic<bool> g_slow, g_launching, g_exiting;
extern float g_milliseconds;  // that the last fill took: its value; -1: it hangs, -2: it fails
extern std::atomic<float>
    g_loading;  // milliseconds that the host needed for a first launch while the GPU waited
bool gated();
CUresult state_of_work();
bool load(CUfunction f);          // whether that happens only now
bool first_launch(CUfunction f);  // the same of its launches, for which the driver may have more to make
void run(CUfunction f, void** params);

// --- driver.cpp: memory, and the program's module ---
constexpr uint64_t kScale = 0, kLimits = 64, kTarget = 128;
extern char* g_variables;  // of the module
extern std::string g_cubin;
extern std::mutex g_memory_mutex;              // protects `g_memory`
extern std::map<uint64_t, uint64_t> g_memory;  // size by address
uint64_t map(uint64_t size);
extern std::atomic<int> g_questions;  // about captures
extern std::atomic<int> g_pinned;     // stretches of the host's memory
extern std::atomic<bool> g_broken;    // a capture, by a wait

// --- graphs.cpp ---
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

// --- cupti.cpp ---
extern std::atomic<int> g_told;  // callbacks
bool enabled(CUpti_CallbackDomain domain, uint32_t id);
void tell(CUpti_CallbackDomain domain, uint32_t cbid, const void* data);
void tell_loaded(uint32_t id, const char* image, size_t size);

uint32_t next_correlation();
// A call of the driver: tells its start, and its end when it is destroyed.
class Call {
 public:
  Call(uint32_t cbid, const char* name, const void* params, const char* symbol = nullptr) : cbid_(cbid) {
    data_.context = kContext;
    data_.correlationId = next_correlation();
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
extern thread_local CUcontext t_context;  // this thread's current one

}  // namespace standin

#define NEED_CONTEXT \
  if (standin::t_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT
#define CALL(name, ...)                       \
  NEED_CONTEXT;                               \
  const name##_params params = {__VA_ARGS__}; \
  standin::Call call(CUPTI_DRIVER_TRACE_CBID_##name, #name, &params)
