#include "cuda/detach.h"

#include "cuda/functions.h"
#include "ring/hot.h"
#include "runtime/runtime.h"

namespace warpsight {

WARPSIGHT_HOT_DATA std::atomic<bool> g_detach_wanted{false};

namespace {
thread_local bool t_detaching = false;  // this thread is inside detach(): only its own call finalises
std::atomic<bool> g_detached{false};    // the finalise of the current detach() succeeded
}  // namespace

void detach_at(const CUpti_CallbackData& call) {
  if (!t_detaching || call.callbackSite != CUPTI_API_EXIT || g_detached.load()) return;
  const CUptiResult result = cupti().cuptiFinalize();
  g_detached.store(result == CUPTI_SUCCESS);
}

bool detach(CUpti_SubscriberHandle subscriber) {
  if (cupti().cuptiFinalize == nullptr) return false;
  g_detached.store(false);
  g_detach_wanted.store(true);
  t_detaching = true;
  const auto domain = CUPTI_CB_DOMAIN_DRIVER_API;
  if (driver().get_version != nullptr) {
    cupti().cuptiEnableCallback(1, subscriber, domain, CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion);
    int version = 0;
    driver().get_version(&version);
  }
  if (!g_detached.load() && driver().current_context != nullptr) {
    cupti().cuptiEnableCallback(1, subscriber, domain, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent);
    CUcontext context = nullptr;
    driver().current_context(&context);
  }
  t_detaching = false;
  g_detach_wanted.store(false);
  return g_detached.load();
}

}  // namespace warpsight
