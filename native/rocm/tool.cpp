// How the recorder gets into a process: rocprofiler-sdk loads the libraries that ROCP_TOOL_LIBRARIES names
// when the first ROCm runtime starts, and calls rocprofiler_configure in each.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "rocm/abi.h"
#include "rocm/functions.h"
#include "rocm/recorder.h"
#include "rocm/rocm.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace rocm {
namespace {

constexpr char kLibraries[] = "ROCP_TOOL_LIBRARIES";
constexpr char kOurName[] = "warpsight";

// rocprofiler-sdk has called us, or is about to. Of several callers one exchanges false for true, and goes
// on.
std::atomic<bool> g_configured{false};
// The configured process; its forked children are not recorded. Stored once, before the library knows what to
// call at its end.
std::atomic<pid_t> g_owner{0};

RocmRecorder& recorder() {
  static RocmRecorder* const value =
      new RocmRecorder;  // never destroyed: callbacks outlive static destructors
  return *value;
}

// The library looks for tools in everything that is loaded; we are one only where that was requested.
bool asked_for() {
  const char* libraries = getenv(kLibraries);
  return libraries != nullptr && strstr(libraries, kOurName) != nullptr;
}

void* loaded(const char* name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

bool kfd_is_open() {
  DIR* folder = opendir("/proc/self/fd");
  bool found = false;
  while (const dirent* entry = folder != nullptr ? readdir(folder) : nullptr) {
    char place[16] = {};
    found = found || (readlinkat(dirfd(folder), entry->d_name, place, sizeof place - 1) > 0 &&
                      strcmp(place, "/dev/kfd") == 0);
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

int count_one(void*, void* count) {
  ++*static_cast<int*>(count);
  return 0;
}

// Whether a ROCm runtime has started in this process, so that rocprofiler-sdk has looked for its tools: known
// from rocprofiler-register since ROCm 7, and from the driver's device before that.
bool too_late() {
  void* library = loaded("librocprofiler-register.so.0");
  using Iterate = int (*)(int (*)(void*, void*), void*);
  const auto iterate = reinterpret_cast<Iterate>(
      library != nullptr ? dlsym(library, "rocprofiler_register_iterate_registration_info") : nullptr);
  if (iterate == nullptr) return kfd_is_open();
  int count = 0;
  iterate(count_one, &count);
  return count != 0;
}

int initialize(void (*)(), void*) {
  if (!recorder().configure()) return -1;
  add_recorder(&recorder());
  return 0;
}

void finalize(void*) {
  if (g_owner.load() == getpid()) recorder().finish();
}

// {name, handle} until 0.6; since 1.0 the struct's size is before them. The name is for other tools'
// messages.
void introduce(uint32_t version, void* client) {
  if (client == nullptr) return;
  auto* words = static_cast<uint64_t*>(client);
  const char* name = kOurName;
  if (version < kFirstStable) {
    memcpy(&words[0], &name, sizeof name);
  } else if (words[0] >= 2 * sizeof(uint64_t)) {
    memcpy(&words[1], &name, sizeof name);
  }
}

ConfigureResult* configure(uint32_t version, void* client) {
  static ConfigureResult result = {sizeof(ConfigureResult), initialize, finalize, nullptr};
  if (!ensure_runtime() && !settings().dormant) return nullptr;
  if (g_configured.exchange(true)) return nullptr;
  if (settings().yield) {
    report_loss("rocm",
                "rocprofiler-sdk is left to the program (--yield): no GPU work and no HIP calls recorded", 1,
                Severity::note);
    return nullptr;
  }
  if (!load_functions(version)) return nullptr;
  g_owner.store(getpid());
  introduce(version, client);
  return &result;
}

}  // namespace
}  // namespace rocm

void register_rocm_backend(bool beginning) {
  if (!beginning || rocm::g_configured.load() || !rocm::asked_for() || !rocm::too_late()) return;
  report_loss("rocm",
              "no GPU work and no HIP calls recorded: the program used ROCm before the recording began, and "
              "rocprofiler-sdk takes tools only then; start it under `warpsight record --backend rocm`");
}

}  // namespace warpsight

extern "C" __attribute__((visibility("default"))) warpsight::rocm::ConfigureResult* rocprofiler_configure(
    uint32_t version, const char*, uint32_t, void* client) {
  if (!warpsight::rocm::asked_for()) return nullptr;
  return warpsight::rocm::configure(version, client);
}
