#include "rocm/functions.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

Functions g_functions;  // written once, before any callback

// The library that is calling us has its functions in the process, but perhaps not for all to see.
void* library() {
  void* found = dlopen("librocprofiler-sdk.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (found == nullptr) found = dlopen("librocprofiler-sdk.so", RTLD_LAZY | RTLD_NOLOAD);
  if (found == nullptr) found = dlopen("librocprofiler-sdk.so.0", RTLD_LAZY | RTLD_NOLOAD);
  return found;
}

void* symbol(void* handle, const char* name) {
  void* found = handle != nullptr ? dlsym(handle, name) : nullptr;
  return found != nullptr ? found : dlsym(RTLD_DEFAULT, name);
}

bool named(Status (*query)(int, const char**, uint64_t*), int kind, const char* expected) {
  const char* name = nullptr;
  if (query == nullptr || query(kind, &name, nullptr) != kSuccess || name == nullptr) return true;
  return strcmp(name, expected) == 0;
}

// Kinds are numbers; one that means something else here must not be misread.
bool kinds_are_known(const Functions& f) {
  return named(f.callback_kind_name, kHipRuntimeApi, "HIP_RUNTIME_API") &&
         named(f.callback_kind_name, kMarkerCoreApi, "MARKER_CORE_API") &&
         named(f.callback_kind_name, kCodeObject, "CODE_OBJECT") &&
         named(f.callback_kind_name, kKernelDispatchCallback, "KERNEL_DISPATCH") &&
         named(f.buffer_kind_name, kMemoryCopy, "MEMORY_COPY") &&
         named(f.buffer_kind_name, kKernelDispatch, "KERNEL_DISPATCH");
}

bool refuse(const std::string& why) {
  report_loss(
      "rocm",
      "no GPU work and no HIP calls recorded: rocprofiler-sdk " + std::string(version_text()) + " " + why, 1,
      Severity::ended);
  return false;
}

}  // namespace

const Functions& sdk() { return g_functions; }

const char* version_text() {
  static char text[32];
  const uint32_t version = g_functions.version;
  snprintf(text, sizeof text, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
  return text;
}

bool load_functions(uint32_t version) {
  Functions& f = g_functions;
  f.version = version;
  if (version < kOldest || version >= kFirstUnknown)
    return refuse("is not one this recorder knows (0.4 to 0.6 and 1.x)");
  if (version >= kFirstUnstable && version < kFirstStable)
    return refuse("was never part of a release, and its records have either of two layouts");
  void* handle = library();
  std::string missing;
#define WARPSIGHT_FIND(member, name, ...) \
  f.member = reinterpret_cast<decltype(f.member)>(symbol(handle, name));
#define WARPSIGHT_NEED(member, name, ...) \
  if (f.member == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  WARPSIGHT_ROCM_REQUIRED(WARPSIGHT_FIND)
  WARPSIGHT_ROCM_OPTIONAL(WARPSIGHT_FIND)
  WARPSIGHT_ROCM_REQUIRED(WARPSIGHT_NEED)
#undef WARPSIGHT_FIND
#undef WARPSIGHT_NEED
  if (!missing.empty()) return refuse("lacks " + missing);
  if (!kinds_are_known(f)) return refuse("numbers its services otherwise than its documentation says");
  return true;
}

const char* status_text(Status status) {
  static thread_local char text[96];
  const char* name = sdk().status_name != nullptr ? sdk().status_name(status) : nullptr;
  snprintf(text, sizeof text, "%s (%d)", name != nullptr ? name : "status", status);
  return text;
}

}  // namespace warpsight::rocm
