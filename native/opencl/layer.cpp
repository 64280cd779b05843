// The OpenCL layer: the entry points for a loader with OPENCL_LAYERS.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "../runtime/runtime.h"
#include "wrappers.h"

#define WS_EXPORT extern "C" __attribute__((visibility("default")))

namespace warpsight {

cl_icd_dispatch g_cl;
volatile bool g_cl_forked = false;

namespace {

cl_icd_dispatch g_table;

// A loader may unload its layers; our thread and the driver's callbacks would run into nothing.
void stay_loaded() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&stay_loaded), &self)) dlopen(self.dli_fname, RTLD_LAZY | RTLD_NODELETE);
}

void wrap_all(cl_icd_dispatch* table) {
  choose_functions();
  wrap_queues(table);
  wrap_kernels(table);
  wrap_buffer_copies(table);
  wrap_image_copies(table);
  wrap_maps(table);
  wrap_fills(table);
  wrap_svm(table);
  wrap_order(table);
  wrap_memory(table);
  wrap_programs(table);
  wrap_rest(table);
}

}  // namespace
}  // namespace warpsight

WS_EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void* value,
                                                         size_t* size_out) {
  static const char name[] = "warpsight";
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  const void* data = &version;
  size_t bytes = sizeof(version);
  if (what == CL_LAYER_NAME) {
    data = name;
    bytes = sizeof(name);
  } else if (what != CL_LAYER_API_VERSION) {
    return CL_INVALID_VALUE;
  }
  if (value && room < bytes) return CL_INVALID_VALUE;
  if (value) memcpy(value, data, bytes);
  if (size_out) *size_out = bytes;
  return CL_SUCCESS;
}

// Called once per loader, while it initializes: nothing is called back from here. A process can hold two
// loaders (a wheel may carry its own); the second gets its own table back, so that only one is recorded,
// never a mixture.
WS_EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch* target,
                                                      cl_uint* entries_out,
                                                      const cl_icd_dispatch** table_out) {
  using namespace warpsight;
  if (!target || !entries_out || !table_out) return CL_INVALID_VALUE;
  if (g_cl.clGetPlatformIDs) {
    *entries_out = entries;
    *table_out = target;
    return CL_SUCCESS;
  }
  // An older loader has fewer entries than our headers: the rest stays empty. A newer one fills in its own.
  cl_uint known = std::min<cl_uint>(entries, kFunctions);
  memcpy(&g_cl, target, known * sizeof(void*));
  g_table = g_cl;
  wrap_all(&g_table);
  stay_loaded();
  pthread_atfork(nullptr, nullptr, [] { g_cl_forked = true; });
  *entries_out = known;
  *table_out = &g_table;
  return CL_SUCCESS;
}
