// OpenMP by its own tools interface (OMPT, OpenMP 5.0 chapter 4 "OMPT Interface"): no CUPTI and no GPU
// needed. The runtime finds ompt_start_tool in the libraries that OMP_TOOL_LIBRARIES names. What follows
// declares the part of omp-tools.h that is used, because compilers without OpenMP tools do not ship it.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "directives/ranges.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

using Any = void (*)();
using Lookup = Any (*)(const char* name);
using SetCallback = int (*)(int event, Any callback);

union Data {  // ompt_data_t: ours to fill
  uint64_t value;
  void* pointer;
};
struct StartToolResult {
  int (*initialize)(Lookup lookup, int device, Data* tool);
  void (*finalize)(Data* tool);
  Data tool;
};

enum Event {
  kParallelBegin = 3,
  kParallelEnd = 4,
  kTaskCreate = 5,
  kTaskSchedule = 6,
  kImplicitTask = 7,
  kTarget = 8,
  kSyncRegionWait = 16,
  kWork = 20,
  kMutexAcquire = 26,
  kMutexAcquired = 27,
  kTargetEmi = 33,
};
enum Endpoint { kBegin = 1, kEnd = 2 };
constexpr int kInitialTask = 1, kExplicitTask = 4;                  // ompt_task_flag_t
constexpr int kTaskComplete = 1, kTaskCancel = 3, kTaskDetach = 4;  // ompt_task_status_t
constexpr uint64_t kStarted = uint64_t{1} << 61;                    // of an explicit task's number

std::atomic<uint64_t> g_tasks{0};  // last number given to an explicit task

constexpr auto kOpenMp = Directives::openmp;

// Attributes repeat: which code, with which number, has which string.
struct Known {
  const void* code;
  uint64_t number;
  uint32_t id;
};
thread_local Known t_known[64];

uint32_t attributes_of(const void* code, const char* key = nullptr, uint64_t value = 0) {
  if (code == nullptr && key == nullptr) return 0;
  Known& known = t_known[(reinterpret_cast<uintptr_t>(code) >> 2 ^ value) % 64];
  if (known.id != 0 && known.code == code && known.number == value) return known.id;
  std::string json = "{";
  if (key != nullptr) add_number(&json, key, value);
  Dl_info found = {};
  if (code != nullptr && dladdr(code, &found) != 0) {
    char offset[32];
    snprintf(offset, sizeof offset, "0x%zx",
             static_cast<size_t>(static_cast<const char*>(code) - static_cast<const char*>(found.dli_fbase)));
    char path[PATH_MAX];  // the program itself may appear under the name it was called by
    add_text(&json, "module", realpath(found.dli_fname, path) != nullptr ? path : found.dli_fname);
    add_text(&json, "offset", offset);
    add_text(&json, "function", found.dli_sname);
  }
  known = {code, value, intern_event(json + "}")};
  return known.id;
}

const char* wait_name(int kind) {
  switch (kind) {
    case 5:
      return "taskwait";
    case 6:
      return "taskgroup wait";
    case 7:
      return "reduction wait";
    case 9:
      return "barrier wait (end of parallel)";
    case 3:
      return "barrier wait (explicit)";
    default:
      return "barrier wait";
  }
}

const char* work_name(int kind) {
  constexpr const char* kNames[] = {nullptr,     "loop",       "sections", "single", nullptr,
                                    "workshare", "distribute", "taskloop", "scope"};
  if (kind >= 10 && kind <= 13) return "loop";  // by its schedule, OpenMP 5.2
  return kind > 0 && kind < 9 ? kNames[kind] : nullptr;
}

const char* mutex_name(int kind) {
  constexpr const char* kNames[] = {"mutex wait", "lock wait",     "lock wait",   "lock wait",
                                    "lock wait",  "critical wait", "atomic wait", "ordered wait"};
  return kNames[kind > 0 && kind < 8 ? kind : 0];
}

const char* target_name(int kind) {
  switch (kind) {
    case 2:
    case 10:
      return "target enter data";
    case 3:
    case 11:
      return "target exit data";
    case 4:
    case 12:
      return "target update";
    default:
      return "target";
  }
}

void parallel_begin(Data*, const void*, Data*, unsigned requested, int, const void* code) {
  begin_directive(kOpenMp, intern_c("parallel"), attributes_of(code, "threads", requested));
}

void parallel_end(Data*, Data*, int, const void*) { end_directive(kOpenMp); }

void implicit_task(int endpoint, Data*, Data* task, unsigned, unsigned index, int flags) {
  if ((flags & kInitialTask) != 0) return;
  if (endpoint == kBegin) {
    if (task != nullptr) task->value = 0;
    begin_directive(kOpenMp, intern_c("implicit task"), attributes_of(nullptr, "thread", index));
  } else if (endpoint == kEnd) {
    end_directive(kOpenMp);
  }
}

void task_create(Data*, const void*, Data* task, int flags, int, const void* code) {
  if ((flags & kExplicitTask) == 0 || task == nullptr) return;
  task->value = g_tasks.fetch_add(1, std::memory_order_relaxed) + 1;
  directive_moment(kOpenMp, intern_c("task created"), attributes_of(code), task->value);
}

// An explicit task runs from its first schedule to its completion, possibly on several threads.
void task_schedule(Data* prior, int status, Data* next) {
  if (prior != nullptr && (prior->value & kStarted) != 0 &&
      (status == kTaskComplete || status == kTaskCancel || status == kTaskDetach)) {
    end_directive(kOpenMp, prior->value & ~kStarted);
    prior->value = 0;
  }
  if (next == nullptr || next->value == 0 || (next->value & kStarted) != 0) return;
  begin_directive(kOpenMp, next->value, intern_c("task"), 0);
  next->value |= kStarted;
}

void sync_region_wait(int kind, int endpoint, Data*, Data*, const void* code) {
  if (endpoint == kBegin)
    begin_directive(kOpenMp, intern_c(wait_name(kind)), attributes_of(code));
  else if (endpoint == kEnd)
    end_directive(kOpenMp);
}

void work(int kind, int endpoint, Data*, Data*, uint64_t, const void* code) {
  const char* name = work_name(kind);
  if (name == nullptr) return;
  if (endpoint == kBegin)
    begin_directive(kOpenMp, intern_c(name), attributes_of(code));
  else if (endpoint == kEnd)
    end_directive(kOpenMp);
}

void mutex_acquire(int kind, unsigned, unsigned, uint64_t, const void* code) {
  begin_directive(kOpenMp, intern_c(mutex_name(kind)), attributes_of(code));
}

void mutex_acquired(int, uint64_t, const void*) { end_directive(kOpenMp); }

void target(int kind, int endpoint, int device, Data*, uint64_t, const void* code) {
  if (endpoint == kBegin)
    begin_directive(kOpenMp, intern_c(target_name(kind)),
                    attributes_of(code, "device", static_cast<uint64_t>(static_cast<uint32_t>(device))));
  else if (endpoint == kEnd)
    end_directive(kOpenMp);
}

void target_emi(int kind, int endpoint, int device, Data* task, Data*, Data*, const void* code) {
  target(kind, endpoint, device, task, 0, code);
}

template <class Function>
bool set(SetCallback set_callback, Event event, Function* callback) {
  constexpr int kSometimes = 3;  // ompt_set_result_t: this and higher ones call back
  return set_callback(event, reinterpret_cast<Any>(callback)) >= kSometimes;
}

int initialize(Lookup lookup, int, Data*) {
  const auto set_callback = reinterpret_cast<SetCallback>(lookup("ompt_set_callback"));
  if (set_callback == nullptr || !ensure_runtime()) return 0;
  directives_heard(kOpenMp);
  // Ranges whose other end is not reported would never close.
  if (!set(set_callback, kParallelBegin, parallel_begin) || !set(set_callback, kParallelEnd, parallel_end))
    report_loss("openmp", "this OpenMP runtime does not report parallel regions");
  set(set_callback, kImplicitTask, implicit_task);
  set(set_callback, kTaskCreate, task_create);
  set(set_callback, kTaskSchedule, task_schedule);
  set(set_callback, kSyncRegionWait, sync_region_wait);
  set(set_callback, kWork, work);
  set(set_callback, kMutexAcquire, mutex_acquire);
  set(set_callback, kMutexAcquired, mutex_acquired);
  if (!set(set_callback, kTargetEmi, target_emi)) set(set_callback, kTarget, target);
  return 1;
}

void finalize(Data*) {}

StartToolResult g_result = {initialize, finalize, {}};

}  // namespace
}  // namespace warpsight

// Called by the OpenMP runtime when it begins. In a process that is not recorded this way, another tool may.
extern "C" __attribute__((visibility("default"))) void* ompt_start_tool(unsigned version,
                                                                        const char* runtime) {
  using namespace warpsight;
  if (directives_wanted(kOpenMp) && !settings().socket.empty()) return &g_result;
  using Start = void* (*)(unsigned, const char*);
  const auto other = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "ompt_start_tool"));
  return other != nullptr ? other(version, runtime) : nullptr;
}
