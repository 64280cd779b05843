#include "cuda/functions.h"

#include <dlfcn.h>

#include <string>

#include "cuda/find_cupti.h"
#include "cuda/versions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

CuptiFunctions g_cupti;
DriverFunctions g_driver;
bool g_loaded = false;  // written once, before the recorder is started

void fill_driver(void* library) {
#define WARPSIGHT_LOOK_UP(member, symbol, ...) \
  g_driver.member = reinterpret_cast<decltype(g_driver.member)>(dlsym(library, symbol));
  WARPSIGHT_DRIVER_FUNCTIONS(WARPSIGHT_LOOK_UP)
#undef WARPSIGHT_LOOK_UP
}

// The name of the first required function that is missing, or nullptr.
const char* fill_cupti(void* library) {
  const char* missing = nullptr;
#define WARPSIGHT_LOOK_UP(name) \
  g_cupti.name = reinterpret_cast<decltype(g_cupti.name)>(dlsym(library, #name));
#define WARPSIGHT_REQUIRE(name) \
  WARPSIGHT_LOOK_UP(name)       \
  if (g_cupti.name == nullptr && missing == nullptr) missing = #name;
  WARPSIGHT_CUPTI_REQUIRED(WARPSIGHT_REQUIRE)
  WARPSIGHT_CUPTI_OPTIONAL(WARPSIGHT_LOOK_UP)
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
  return text != nullptr ? text : "unknown CUPTI error";
}

bool load_libraries() {
  if (g_loaded) return true;
  void* cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (cuda == nullptr) return refuse("libcuda.so.1 is not loaded in this process");
  fill_driver(cuda);
  const FoundCupti found = find_cupti(driver_cuda_major(cuda));
  if (found.handle == nullptr) return refuse("no GPU work recorded: " + found.why);
  if (const char* missing = fill_cupti(found.handle)) {
    return refuse("no GPU work recorded: " + found.path + " has no function " + missing);
  }
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
