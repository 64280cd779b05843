// CUPTI, as far as the library that cuts kernels out and a recording need it.
#include <set>

#include "driver.h"

namespace standin {

std::atomic<int> g_told{0};
namespace {
CUpti_CallbackFunc g_callback = nullptr;
std::mutex g_enabled_mutex;  // protects `g_enabled`
std::set<std::pair<int, uint32_t>> g_enabled;
}  // namespace

bool enabled(CUpti_CallbackDomain domain, uint32_t id) {
  std::lock_guard<std::mutex> lock(g_enabled_mutex);
  return g_enabled.count({domain, id}) != 0;
}

void tell(CUpti_CallbackDomain domain, uint32_t cbid, const void* data) {
  if (g_callback == nullptr || !enabled(domain, cbid)) return;
  ++g_told;
  g_callback(nullptr, domain, cbid, data);
}

void tell_loaded(uint32_t id, const char* image, size_t size) {
  CUpti_ModuleResourceData loaded = {};
  loaded.moduleId = id;
  loaded.pCubin = image;
  loaded.cubinSize = size;
  CUpti_ResourceData resource = {};
  resource.context = kContext;
  resource.resourceDescriptor = &loaded;
  tell(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &resource);
}

uint32_t next_correlation() {
  static std::atomic<uint32_t> correlation{0};
  return ++correlation;
}

}  // namespace standin

using namespace standin;

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  if (asked("no_subscribe")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  g_callback = callback;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId id) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id > CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz + 200)
    return CUPTI_ERROR_INVALID_PARAMETER;  // an older CUPTI than the library was built with
  std::lock_guard<std::mutex> lock(g_enabled_mutex);
  on != 0 ? (void)g_enabled.insert({domain, id}) : (void)g_enabled.erase({domain, id});
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackState(uint32_t* on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                         CUpti_CallbackId id) {
  return *on = enabled(domain, id) ? 1 : 0, CUPTI_SUCCESS;
}
// What a recording needs too; no work has a record.
#define DONE(name, arguments, ...) \
  EXPORT CUptiResult name arguments { return __VA_ARGS__; }
DONE(cuptiGetVersion, (uint32_t* version), *version = 26, CUPTI_SUCCESS)
DONE(cuptiUnsubscribe, (CUpti_SubscriberHandle), CUPTI_SUCCESS)
DONE(cuptiActivityEnable, (CUpti_ActivityKind), CUPTI_SUCCESS)
DONE(cuptiActivityDisable, (CUpti_ActivityKind), CUPTI_SUCCESS)
DONE(cuptiActivityFlushAll, (uint32_t), CUPTI_SUCCESS)
DONE(cuptiActivityGetNextRecord, (uint8_t*, size_t, CUpti_Activity**), CUPTI_ERROR_MAX_LIMIT_REACHED)
DONE(cuptiActivityGetNumDroppedRecords, (CUcontext, uint32_t, size_t* count), *count = 0, CUPTI_SUCCESS)
DONE(cuptiActivityRegisterCallbacks, (CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc),
     CUPTI_SUCCESS)
DONE(cuptiActivitySetAttribute, (CUpti_ActivityAttribute, size_t*, void*), CUPTI_SUCCESS)
