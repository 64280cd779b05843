// OpenACC by its profiling interface (OpenACC 2.6 chapter 5): the runtime calls acc_register_library of the
// library that ACC_PROFLIB names, and then us for every event. No CUPTI and no GPU needed. What follows
// declares the part of acc_prof.h that is used, because compilers without OpenACC do not ship it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "directives/ranges.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

struct ProfInfo {  // acc_prof_info
  int event, valid_bytes, version, device_type, device_number, thread;
  long async, async_queue;
  const char* file;
  const char* function;
  int line, end_line, function_line, function_end_line;
};
struct EventInfo {  // the common part of acc_data_event_info, acc_launch_event_info and acc_other_event_info
  int event, valid_bytes, construct, implicit;
  void* tool;
};
struct DataInfo {
  EventInfo shared;
  const char* variable;
  size_t bytes;
  const void *host, *device;
};
struct LaunchInfo {
  EventInfo shared;
  const char* kernel;
  size_t gangs, workers, vector;
};
using Callback = void (*)(ProfInfo*, EventInfo*, void*);
using Register = void (*)(int event, Callback callback, int how);

constexpr auto kOpenAcc = Directives::openacc;
constexpr int kCreate = 6, kFree = 9, kLaunchStart = 18, kDownloadEnd = 23;

// Events by number: a name begins a range or, with no end after it, is a moment; "" ends the range.
constexpr const char* kEvents[] = {
    nullptr,
    "device init",
    "",
    "device shutdown",
    "",
    nullptr,  // runtime shutdown
    "create",
    "delete",
    "alloc",
    "free",
    "enter data",
    "",
    "exit data",
    "",
    "update",
    "",
    "compute construct",
    "",
    "enqueue launch",
    "",
    "enqueue upload",
    "",
    "enqueue download",
    "",
    "wait",
    "",
};
constexpr int kEventCount = sizeof kEvents / sizeof kEvents[0];

constexpr const char* kConstructs[] = {
    "parallel", "kernels",  "loop", "data",   "enter data", "exit data", "host data",   "atomic", "declare",
    "init",     "shutdown", "set",  "update", "routine",    "wait",      "runtime API", "serial"};

template <class Info, class Field>
bool has(const EventInfo& event, Field Info::* field) {
  const Info* const none = nullptr;
  const auto offset = reinterpret_cast<size_t>(&(none->*field));
  return event.valid_bytes >= 0 && offset + sizeof(Field) <= static_cast<size_t>(event.valid_bytes);
}

bool moves(int event) {
  return (event >= kCreate && event <= kFree) || (event >= kLaunchStart + 2 && event <= kDownloadEnd);
}

std::string describe(const ProfInfo& info, const EventInfo& event) {
  std::string json = "{";
  add_text(&json, "file", info.file);
  if (info.line > 0) add_number(&json, "line", static_cast<uint64_t>(info.line));
  add_text(&json, "function", info.function);
  constexpr int kCount = sizeof kConstructs / sizeof kConstructs[0];
  if (event.construct >= 0 && event.construct < kCount)
    add_text(&json, "construct", kConstructs[event.construct]);
  if (event.implicit != 0) json += json == "{" ? "\"implicit\":true" : ",\"implicit\":true";
  if (moves(info.event)) {
    const auto& data = reinterpret_cast<const DataInfo&>(event);
    if (has(event, &DataInfo::variable)) add_text(&json, "variable", data.variable);
    if (has(event, &DataInfo::bytes)) add_number(&json, "bytes", data.bytes);
  } else if (info.event == kLaunchStart) {
    const auto& launch = reinterpret_cast<const LaunchInfo&>(event);
    if (has(event, &LaunchInfo::kernel)) add_text(&json, "kernel", launch.kernel);
    if (has(event, &LaunchInfo::vector)) {
      add_number(&json, "gangs", launch.gangs);
      add_number(&json, "workers", launch.workers);
      add_number(&json, "vector", launch.vector);
    }
  }
  return json == "{" ? "" : json + "}";
}

void on_event(ProfInfo* info, EventInfo* event, void*) {
  if (info == nullptr || event == nullptr || info->event <= 0 || info->event >= kEventCount) return;
  const char* const name = kEvents[info->event];
  if (name == nullptr) return;
  if (*name == 0) return end_directive(kOpenAcc);
  const std::string told = recording() ? describe(*info, *event) : std::string();
  const uint32_t attributes = told.empty() ? 0 : intern_event(told);
  if (info->event < kCreate || info->event > kFree)
    return begin_directive(kOpenAcc, intern_c(name), attributes);
  const auto& data = reinterpret_cast<const DataInfo&>(*event);
  directive_moment(kOpenAcc, intern_c(name), attributes, has(*event, &DataInfo::bytes) ? data.bytes : 0);
}

}  // namespace
}  // namespace warpsight

// Called by the OpenACC runtime when it begins. In a process that is not recorded this way, another library
// may.
extern "C" __attribute__((visibility("default"))) void acc_register_library(void* add, void* remove,
                                                                            void* look_up) {
  using namespace warpsight;
  if (directives_wanted(kOpenAcc) && ensure_runtime()) {
    directives_heard(kOpenAcc);
    for (int event = 1; event < kEventCount; ++event) {
      if (kEvents[event] != nullptr) reinterpret_cast<Register>(add)(event, on_event, 0);
    }
    return;
  }
  using Library = void (*)(void*, void*, void*);
  const auto other = reinterpret_cast<Library>(dlsym(RTLD_NEXT, "acc_register_library"));
  if (other != nullptr) other(add, remove, look_up);
}
