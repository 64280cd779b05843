#include "capsule/calls.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "capsule/graphs.h"
#include "capsule/work.h"

namespace warpsight {
namespace {

std::mutex g_mutex;  // protects the members below: CUPTI requires one thread at a time
std::atomic<Followed> g_followed{Followed::nothing};  // changed under it, read without
decltype(&cuptiEnableCallback) g_enable = nullptr;    // null: nothing is changed
CUpti_SubscriberHandle g_subscriber = nullptr;

constexpr uint32_t kMemory[] = {
#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name
    CBID(cuMemAlloc_v2),
    CBID(cuMemAllocPitch_v2),
    CBID(cuMemAllocAsync),
    CBID(cuMemAllocAsync_ptsz),
    CBID(cuMemAllocFromPoolAsync),
    CBID(cuMemAllocFromPoolAsync_ptsz),
    CBID(cuMemAllocManaged),
    CBID(cuMemHostAlloc),
    CBID(cuMemHostAlloc_v2),
    CBID(cuMemAllocHost_v2),
    CBID(cuMemHostRegister_v2),
    CBID(cuIpcOpenMemHandle_v2),
    CBID(cuMemMap),
    CBID(cuMemFree_v2),
    CBID(cuMemFreeAsync),
    CBID(cuMemFreeAsync_ptsz),
    CBID(cuMemFreeHost),
    CBID(cuMemHostUnregister),
    CBID(cuMemUnmap),
    CBID(cuIpcCloseMemHandle),
    CBID(cuModuleLoad),
    CBID(cuModuleLoadData),
    CBID(cuModuleLoadDataEx),
    CBID(cuModuleLoadFatBinary),
    CBID(cuTexObjectCreate),
    CBID(cuSurfObjectCreate),
    CBID(cuTexRefSetAddress_v2),
    CBID(cuTexRefSetArray),
    CBID(cuStreamBeginCapture),
    CBID(cuStreamBeginCapture_ptsz),
    CBID(cuStreamBeginCapture_v2),
    CBID(cuStreamBeginCapture_v2_ptsz),
    CBID(cuStreamBeginCaptureToGraph),
    CBID(cuStreamBeginCaptureToGraph_ptsz),
    CBID(cuStreamEndCapture),
    CBID(cuStreamEndCapture_ptsz)
#undef CBID
};

CUptiResult enable(bool on, uint32_t cbid) {
  const CUptiResult result = g_enable(on ? 1 : 0, g_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbid);
  return result == CUPTI_ERROR_INVALID_PARAMETER ? CUPTI_SUCCESS : result;  // newer than this CUPTI
}

template <class Calls>
CUptiResult enable_all(bool on, const Calls& calls) {
  CUptiResult result = CUPTI_SUCCESS;
  for (uint32_t cbid : calls)
    if (result == CUPTI_SUCCESS) result = enable(on, cbid);
  return result;
}

CUptiResult enable_writes(bool on, bool launches) {
  CUptiResult result = CUPTI_SUCCESS;
  for (uint32_t cbid : writing_calls())
    if (result == CUPTI_SUCCESS && is_launch(cbid) == launches) result = enable(on, cbid);
  return result;
}

CUptiResult enable_group(bool on, Followed group) {
  if (group == Followed::copies || group == Followed::writes)
    return enable_writes(on, group == Followed::writes);
  if (group == Followed::work) return enable_all(on, ordering_calls());
  const CUptiResult result = enable_all(on, kMemory);
  return result == CUPTI_SUCCESS ? enable_all(on, Graphs::calls()) : result;
}

}  // namespace

void follow_with(decltype(&cuptiEnableCallback) enable, CUpti_SubscriberHandle subscriber) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_enable = enable;
  g_subscriber = subscriber;
}

CUptiResult follow(Followed calls) {
  if (g_followed.load(std::memory_order_relaxed) == calls) return CUPTI_SUCCESS;
  std::lock_guard<std::mutex> lock(g_mutex);
  CUptiResult result = CUPTI_SUCCESS;
  if (g_enable == nullptr) return result;
  for (Followed group : {Followed::memory, Followed::copies, Followed::writes, Followed::work}) {
    const bool on = group <= calls, was = group <= g_followed.load(std::memory_order_relaxed);
    if (on != was && result == CUPTI_SUCCESS) result = enable_group(on, group);
  }
  g_followed.store(calls, std::memory_order_relaxed);
  return result;
}

}  // namespace warpsight
