#include "cuda/capsule.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "cuda/callbacks.h"
#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

using Join = CUpti_CallbackFunc (*)(decltype(&cuptiEnableCallback), CUpti_SubscriberHandle);

constexpr uint32_t kCallbacks = 2048;  // more than a domain has
// The callbacks that are enabled for that library alone: of resources, of the driver. Set before it gets the
// first.
std::atomic<bool> g_foreign[2][kCallbacks];
std::atomic<CUpti_CallbackFunc> g_callback{nullptr};  // its own; null before it has joined
bool (*g_own)() = nullptr;  // whether this thread is in a call of its own; set before

std::atomic<bool>& foreign(CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  return g_foreign[domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0][cbid];
}

CUptiResult CUPTIAPI enable_for_it(uint32_t on, CUpti_SubscriberHandle subscriber,
                                   CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (cbid >= kCallbacks) return CUPTI_ERROR_INVALID_PARAMETER;
  if (on == 0) {
    if (!foreign(domain, cbid).load()) return CUPTI_SUCCESS;  // ours as well
    const CUptiResult result = cupti().cuptiEnableCallback(0, subscriber, domain, cbid);
    foreign(domain, cbid).store(false);
    return result;
  }
  uint32_t enabled = 0;
  const CUptiResult known = cupti().cuptiGetCallbackState(&enabled, subscriber, domain, cbid);
  if (known != CUPTI_SUCCESS || enabled != 0) return known;
  foreign(domain, cbid).store(true);
  const CUptiResult result = cupti().cuptiEnableCallback(1, subscriber, domain, cbid);
  if (result != CUPTI_SUCCESS) foreign(domain, cbid).store(false);
  return result;
}

// The library is next to this one. Returns "" or the reason why it cannot record a capsule.
std::string join(CUpti_SubscriberHandle subscriber) {
  Dl_info here = {};
  if (dladdr(reinterpret_cast<void*>(&enable_for_it), &here) == 0 || here.dli_fname == nullptr)
    return "its library cannot be found";
  const std::string path(here.dli_fname);
  void* const library = dlopen((path.substr(0, path.rfind('/') + 1) + "libwarpsight_capsule.so").c_str(),
                               RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  if (cupti().cuptiGetCallbackState == nullptr) return "this CUPTI does not tell which callbacks are enabled";
  g_own = reinterpret_cast<bool (*)()>(dlsym(library, "warpsight_capsule_own"));
  const auto join = reinterpret_cast<Join>(dlsym(library, "warpsight_capsule_join"));
  if (g_own == nullptr || join == nullptr) return "its library is of another version";
  g_callback.store(join(enable_for_it, subscriber), std::memory_order_release);
  return "";
}

}  // namespace

bool capsule_wanted() {
  const char* const request = getenv("WARPSIGHT_CAPSULE");
  return request != nullptr && request[0] != '\0';
}

void start_capsule(CUpti_SubscriberHandle subscriber) {
  static std::atomic<bool> begun{false};
  if (!capsule_wanted() || begun.exchange(true)) return;
  const std::string why = join(subscriber);
  if (!why.empty()) report_loss("cuda", "nothing is cut out: " + why, 1, Severity::note);
}

void CUPTIAPI on_shared_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                 const void* data) {
  const CUpti_CallbackFunc other = g_callback.load(std::memory_order_acquire);
  const bool of_driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  if (other == nullptr || cbid >= kCallbacks || (!of_driver && domain != CUPTI_CB_DOMAIN_RESOURCE))
    return on_callback(user, domain, cbid, data);
  if (of_driver && g_own()) return;
  const bool ours = !foreign(domain, cbid).load(std::memory_order_relaxed);
  const bool ends = of_driver && static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_EXIT;
  if (ours && ends)
    on_callback(user, domain, cbid, data);  // without the time for which the other holds the call
  other(user, domain, cbid, data);
  if (ours && !ends) on_callback(user, domain, cbid, data);
}

}  // namespace warpsight
