#include "cuda/functions.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <string>

#include "cuda/find_cupti.h"
#include "cuda/versions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

CuptiFunctions g_cupti;
DriverFunctions g_driver;
bool g_loaded = false;                             // written once, before the recorder is started
std::atomic<Profiler> g_profiler{Profiler::none};  // who has the tables

void fill_driver(void* library) {
#define WARPSIGHT_LOOK_UP(member, symbol, ...) \
  g_driver.member = reinterpret_cast<decltype(g_driver.member)>(dlsym(library, symbol));
  WARPSIGHT_DRIVER_FUNCTIONS(WARPSIGHT_LOOK_UP)
#undef WARPSIGHT_LOOK_UP
}

// A function of a library whose names begin with `prefix` where CUPTI's begin with cupti.
void* look_up(void* library, const char* prefix, const char* name) {
  return dlsym(library, (prefix + std::string(name + strlen("cupti"))).c_str());
}

// The names of missing functions, comma-separated: those that both vendors' libraries must have, and, where
// `all`, those that a libcupti must have.
std::string fill(void* library, const char* prefix, bool all) {
  std::string missing;
  const auto lacks = [&missing, prefix](const char* name) {
    missing += (missing.empty() ? "" : ", ") + std::string(prefix) + (name + strlen("cupti"));
  };
#define WARPSIGHT_LOOK_UP(name) \
  g_cupti.name = reinterpret_cast<decltype(g_cupti.name)>(look_up(library, prefix, #name));
#define WARPSIGHT_REQUIRE(name) \
  WARPSIGHT_LOOK_UP(name)       \
  if (g_cupti.name == nullptr) lacks(#name);
#define WARPSIGHT_REQUIRE_ALL(name) \
  WARPSIGHT_LOOK_UP(name)           \
  if (all && g_cupti.name == nullptr) lacks(#name);
  WARPSIGHT_CUPTI_RECORDS(WARPSIGHT_REQUIRE)
  WARPSIGHT_CUPTI_REQUIRED(WARPSIGHT_REQUIRE_ALL)
  WARPSIGHT_CUPTI_OPTIONAL(WARPSIGHT_LOOK_UP)
#undef WARPSIGHT_REQUIRE_ALL
#undef WARPSIGHT_REQUIRE
#undef WARPSIGHT_LOOK_UP
  return missing;
}

bool refuse(const std::string& why) {
  report_loss("cuda", why, 1, Severity::ended);
  return false;
}

}  // namespace

const CuptiFunctions& cupti() { return g_cupti; }
const DriverFunctions& driver() { return g_driver; }

const char* result_name(CUptiResult result) {
  const char* text = nullptr;
  if (g_cupti.cuptiGetResultString != nullptr) g_cupti.cuptiGetResultString(result, &text);
  if (text != nullptr) return text;
  return profiler() == Profiler::mcpti ? "unknown MCPTI error" : "unknown CUPTI error";
}

bool claim_profiler(Profiler which) {
  Profiler holder = Profiler::none;
  return g_profiler.compare_exchange_strong(holder, which) || holder == which;
}

Profiler profiler() { return g_profiler.load(std::memory_order_relaxed); }

const char* profiler_name() { return profiler() == Profiler::mcpti ? "MCPTI" : "CUPTI"; }
const char* profiler_source() { return profiler() == Profiler::mcpti ? "mcpti" : "cupti"; }

void set_cupti_version(uint32_t version) { g_cupti.version = version; }

std::string load_mcpti(void* library) { return fill(library, "mcpti", false); }

bool load_libraries() {
  if (g_loaded) return true;
  void* cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (cuda == nullptr) return refuse("libcuda.so.1 is not loaded in this process");
  fill_driver(cuda);
  const FoundCupti found = find_cupti(driver_cuda_major(cuda));
  if (found.handle == nullptr) return refuse("no GPU work recorded: " + found.why);
  const std::string missing = fill(found.handle, "cupti", true);
  if (!missing.empty()) return refuse("no GPU work recorded: " + found.path + " has no function " + missing);
  if (g_cupti.cuptiGetVersion(&g_cupti.version) != CUPTI_SUCCESS || g_cupti.version < kOldestCupti) {
    return refuse("no GPU work recorded: " + found.path + " is CUPTI API version " +
                  std::to_string(g_cupti.version) +
                  ", from before CUDA 12; install a CUDA 12 or 13 libcupti (pip install nvidia-cuda-cupti)");
  }
  const std::string known = known_problems(g_cupti.version);
  if (!known.empty()) report_loss("cuda", known, 1, Severity::note);
  g_loaded = true;
  return true;
}

}  // namespace warpsight
