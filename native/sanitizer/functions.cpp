#include "sanitizer/functions.h"

#include <dlfcn.h>

namespace warpsight {
namespace {

template <class Function>
bool find(void* library, const char* name, Function* function, std::string* why) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) *why = std::string("the Sanitizer library has no function ") + name;
  return *function != nullptr;
}

}  // namespace

bool load_sanitizer(const std::string& path, SanitizerFunctions* functions, std::string* why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = dlerror();
    return false;
  }
  return find(library, "sanitizerSubscribe", &functions->subscribe, why) &&
         find(library, "sanitizerEnableDomain", &functions->enable_domain, why) &&
         find(library, "sanitizerEnableCallback", &functions->enable_callback, why) &&
         find(library, "sanitizerGetResultString", &functions->result_string, why) &&
         find(library, "sanitizerAddPatchesFromFile", &functions->add_patches, why) &&
         find(library, "sanitizerPatchInstructions", &functions->patch_instructions, why) &&
         find(library, "sanitizerPatchModule", &functions->patch_module, why) &&
         find(library, "sanitizerSetLaunchCallbackData", &functions->set_launch_data, why) &&
         find(library, "sanitizerGetFunctionPcAndSize", &functions->function_pc, why) &&
         find(library, "sanitizerAlloc", &functions->alloc, why) &&
         find(library, "sanitizerAllocHost", &functions->alloc_host, why) &&
         find(library, "sanitizerMemset", &functions->memset, why) &&
         find(library, "sanitizerMemcpyHostToDeviceAsync", &functions->copy_to_device, why) &&
         find(library, "sanitizerMemcpyDeviceToHost", &functions->copy_to_host, why);
}

}  // namespace warpsight
