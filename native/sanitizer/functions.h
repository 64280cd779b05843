// The functions of NVIDIA's Compute Sanitizer library that event traces use, found at run time.
#pragma once

#include <sanitizer.h>

#include <string>

namespace warpsight {

struct SanitizerFunctions {
  decltype(&sanitizerSubscribe) subscribe;
  decltype(&sanitizerEnableDomain) enable_domain;
  decltype(&sanitizerEnableCallback) enable_callback;
  decltype(&sanitizerGetResultString) result_string;
  decltype(&sanitizerAddPatchesFromFile) add_patches;
  decltype(&sanitizerPatchInstructions) patch_instructions;
  decltype(&sanitizerPatchModule) patch_module;
  decltype(&sanitizerSetLaunchCallbackData) set_launch_data;
  decltype(&sanitizerGetFunctionPcAndSize) function_pc;
  decltype(&sanitizerAlloc) alloc;
  decltype(&sanitizerAllocHost) alloc_host;
  decltype(&sanitizerMemset) memset;
  decltype(&sanitizerMemcpyHostToDeviceAsync) copy_to_device;
  decltype(&sanitizerMemcpyDeviceToHost) copy_to_host;
};

// Loads the library at `path`; false, with `why`, when it cannot be loaded or lacks a function.
bool load_sanitizer(const std::string& path, SanitizerFunctions* functions, std::string* why);

}  // namespace warpsight
