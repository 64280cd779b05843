// How the recorder gets into a process: rocprofiler-sdk loads the libraries that ROCP_TOOL_LIBRARIES names
// when the first ROCm runtime starts, and calls rocprofiler_configure in each.
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

std::atomic<bool> g_configured{false};  // rocprofiler-sdk has called us, or is about to
std::atomic<pid_t> g_owner{0};  // the process that was configured; its forked children are none of ours

RocmRecorder& recorder() {
  static RocmRecorder* const value =
      new RocmRecorder;  // never destroyed: callbacks outlive static destructors
  return *value;
}

// The library looks for tools in everything that is loaded; we are one only where we were asked for.
bool asked_for() {
  const char* libraries = getenv(kLibraries);
  return libraries != nullptr && strstr(libraries, kOurName) != nullptr;
}

int initialize(void (*)(), void*) {
  if (!recorder().configure()) return -1;
  add_recorder(&recorder());
  return 0;
}

void finalize(void*) {
  if (g_owner.load() == getpid()) recorder().finish();
}

// {name, handle} until 0.6; since 1.0 the struct's size stands before them. The name is for other tools'
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
  if (!load_functions(version)) return nullptr;
  g_owner.store(getpid());
  introduce(version, client);
  return &result;
}

}  // namespace
}  // namespace rocm

void register_rocm_backend() {
  using namespace rocm;  // NOLINT: only here
  if (g_configured.load() || !asked_for()) return;
  void* hip = dlopen("libamdhip64.so", RTLD_LAZY | RTLD_NOLOAD);
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
    if (hip == nullptr) hip = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  }
  if (hip == nullptr) return;  // it will be told of us when it is loaded
  report_loss("rocm",
              "no GPU work and no HIP calls recorded: HIP was loaded before the recording began, and "
              "rocprofiler-sdk takes "
              "tools only then; start the program under `warpsight record --backend rocm`");
}

}  // namespace warpsight

extern "C" __attribute__((visibility("default"))) warpsight::rocm::ConfigureResult* rocprofiler_configure(
    uint32_t version, const char*, uint32_t, void* client) {
  if (!warpsight::rocm::asked_for()) return nullptr;
  return warpsight::rocm::configure(version, client);
}
