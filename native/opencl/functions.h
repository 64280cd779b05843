// Numbers of OpenCL functions: their place in the ICD dispatch table, which is an ABI and only ever grows.
// `warpsight/capture/opencl_functions.py` has the names in the same order.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

#include <cstddef>
#include <cstdint>

namespace warpsight {

using ClFunction = uint16_t;
constexpr size_t kFunctions = sizeof(cl_icd_dispatch) / sizeof(void*);
#define WS_CL(name) (static_cast<::warpsight::ClFunction>(offsetof(cl_icd_dispatch, name) / sizeof(void*)))

// The layer below us: another layer or the loader. Only entries known to the loader are not null. We never
// call the loader's exported functions, which would call us again.
extern cl_icd_dispatch g_cl;

// Set in a forked child, where every entry of ours only passes on: our state may have been torn by the fork.
extern volatile bool g_cl_forked;

// Whether an Api row is wanted for a function (WARPSIGHT_API).
extern bool g_cl_wanted[kFunctions];
// Reads WARPSIGHT_API into g_cl_wanted.
void choose_functions();
const char* function_name(ClFunction function);

}  // namespace warpsight
