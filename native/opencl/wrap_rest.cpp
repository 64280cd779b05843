// Names of the dispatch table's entries, in its order, and the plain timing of those without a wrapper of
// their own.
#include <fnmatch.h>

#include <cstring>
#include <string>
#include <type_traits>

#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

const char* const kNames[] = {
    // clang-format off
    "clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext",
    "clCreateContextFromType", "clRetainContext", "clReleaseContext", "clGetContextInfo",
    "clCreateCommandQueue", "clRetainCommandQueue", "clReleaseCommandQueue", "clGetCommandQueueInfo",
    "clSetCommandQueueProperty", "clCreateBuffer", "clCreateImage2D", "clCreateImage3D",
    "clRetainMemObject", "clReleaseMemObject", "clGetSupportedImageFormats", "clGetMemObjectInfo",
    "clGetImageInfo", "clCreateSampler", "clRetainSampler", "clReleaseSampler", "clGetSamplerInfo",
    "clCreateProgramWithSource", "clCreateProgramWithBinary", "clRetainProgram", "clReleaseProgram",
    "clBuildProgram", "clUnloadCompiler", "clGetProgramInfo", "clGetProgramBuildInfo", "clCreateKernel",
    "clCreateKernelsInProgram", "clRetainKernel", "clReleaseKernel", "clSetKernelArg", "clGetKernelInfo",
    "clGetKernelWorkGroupInfo", "clWaitForEvents", "clGetEventInfo", "clRetainEvent", "clReleaseEvent",
    "clGetEventProfilingInfo", "clFlush", "clFinish", "clEnqueueReadBuffer", "clEnqueueWriteBuffer",
    "clEnqueueCopyBuffer", "clEnqueueReadImage", "clEnqueueWriteImage", "clEnqueueCopyImage",
    "clEnqueueCopyImageToBuffer", "clEnqueueCopyBufferToImage", "clEnqueueMapBuffer", "clEnqueueMapImage",
    "clEnqueueUnmapMemObject", "clEnqueueNDRangeKernel", "clEnqueueTask", "clEnqueueNativeKernel",
    "clEnqueueMarker", "clEnqueueWaitForEvents", "clEnqueueBarrier", "clGetExtensionFunctionAddress",
    "clCreateFromGLBuffer", "clCreateFromGLTexture2D", "clCreateFromGLTexture3D",
    "clCreateFromGLRenderbuffer", "clGetGLObjectInfo", "clGetGLTextureInfo", "clEnqueueAcquireGLObjects",
    "clEnqueueReleaseGLObjects", "clGetGLContextInfoKHR", "clGetDeviceIDsFromD3D10KHR",
    "clCreateFromD3D10BufferKHR", "clCreateFromD3D10Texture2DKHR", "clCreateFromD3D10Texture3DKHR",
    "clEnqueueAcquireD3D10ObjectsKHR", "clEnqueueReleaseD3D10ObjectsKHR", "clSetEventCallback",
    "clCreateSubBuffer", "clSetMemObjectDestructorCallback", "clCreateUserEvent", "clSetUserEventStatus",
    "clEnqueueReadBufferRect", "clEnqueueWriteBufferRect", "clEnqueueCopyBufferRect",
    "clCreateSubDevicesEXT", "clRetainDeviceEXT", "clReleaseDeviceEXT", "clCreateEventFromGLsyncKHR",
    "clCreateSubDevices", "clRetainDevice", "clReleaseDevice", "clCreateImage",
    "clCreateProgramWithBuiltInKernels", "clCompileProgram", "clLinkProgram", "clUnloadPlatformCompiler",
    "clGetKernelArgInfo", "clEnqueueFillBuffer", "clEnqueueFillImage", "clEnqueueMigrateMemObjects",
    "clEnqueueMarkerWithWaitList", "clEnqueueBarrierWithWaitList",
    "clGetExtensionFunctionAddressForPlatform", "clCreateFromGLTexture", "clGetDeviceIDsFromD3D11KHR",
    "clCreateFromD3D11BufferKHR", "clCreateFromD3D11Texture2DKHR", "clCreateFromD3D11Texture3DKHR",
    "clCreateFromDX9MediaSurfaceKHR", "clEnqueueAcquireD3D11ObjectsKHR", "clEnqueueReleaseD3D11ObjectsKHR",
    "clGetDeviceIDsFromDX9MediaAdapterKHR", "clEnqueueAcquireDX9MediaSurfacesKHR",
    "clEnqueueReleaseDX9MediaSurfacesKHR", "clCreateFromEGLImageKHR", "clEnqueueAcquireEGLObjectsKHR",
    "clEnqueueReleaseEGLObjectsKHR", "clCreateEventFromEGLSyncKHR", "clCreateCommandQueueWithProperties",
    "clCreatePipe", "clGetPipeInfo", "clSVMAlloc", "clSVMFree", "clEnqueueSVMFree", "clEnqueueSVMMemcpy",
    "clEnqueueSVMMemFill", "clEnqueueSVMMap", "clEnqueueSVMUnmap", "clCreateSamplerWithProperties",
    "clSetKernelArgSVMPointer", "clSetKernelExecInfo", "clGetKernelSubGroupInfoKHR", "clCloneKernel",
    "clCreateProgramWithIL", "clEnqueueSVMMigrateMem", "clGetDeviceAndHostTimer", "clGetHostTimer",
    "clGetKernelSubGroupInfo", "clSetDefaultDeviceCommandQueue", "clSetProgramReleaseCallback",
    "clSetProgramSpecializationConstant", "clCreateBufferWithProperties", "clCreateImageWithProperties",
    "clSetContextDestructorCallback",
    // clang-format on
};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == kFunctions, "the headers' dispatch table has grown");

// Recorded unless WARPSIGHT_API says otherwise: calls that take time or create something. Excludes queries,
// retains and releases, which programs call by the thousand.
bool by_default(const char* name) {
  for (const char* pattern :
       {"clEnqueue*", "clCreate*", "clFinish", "clFlush", "clWaitForEvents", "clBuildProgram",
        "clCompileProgram", "clLinkProgram", "clSVM*", "clSetUserEventStatus"}) {
    if (fnmatch(pattern, name, 0) == 0) return true;
  }
  return false;
}

bool listed(const std::string& list, const char* name) {
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find_first_of(", ", begin), list.size());
    if (end > begin && fnmatch(list.substr(begin, end - begin).c_str(), name, 0) == 0) return true;
    begin = end + 1;
  }
  return false;
}

// One wrapper per entry, made from the entry's own type. The result is the API's code where the function
// returns one.
template <auto Member, class Signature>
struct Timed;
template <auto Member, class Result, class... Arguments>
struct Timed<Member, Result(CL_API_CALL*)(Arguments...)> {
  static ClFunction number;
  static Result CL_API_CALL call(Arguments... arguments) {
    if (!recording()) return (g_cl.*Member)(arguments...);
    HostCall row(number);
    if constexpr (std::is_void<Result>::value) {
      (g_cl.*Member)(arguments...);
      row.finish(CL_SUCCESS);
    } else {
      Result result = (g_cl.*Member)(arguments...);
      cl_int code = CL_SUCCESS;
      if constexpr (std::is_same<Result, cl_int>::value) code = result;
      row.finish(code);
      return result;
    }
  }
};
template <auto Member, class Result, class... Arguments>
ClFunction Timed<Member, Result(CL_API_CALL*)(Arguments...)>::number = 0;

// Entries that no other file wraps, except those without a type in the Linux headers.
template <auto Member, class Signature>
void time_entry(cl_icd_dispatch* table, Signature* signature, ClFunction number) {
  if (!(table->*Member) || table->*Member != g_cl.*Member || !g_cl_wanted[number]) return;
  static_cast<void>(signature);
  Timed<Member, Signature>::number = number;
  table->*Member = Timed<Member, Signature>::call;
}

}  // namespace

bool g_cl_wanted[kFunctions];

const char* function_name(ClFunction function) { return kNames[function]; }

void choose_functions() {
  const std::string& api = settings().api;
  for (size_t i = 0; i < kFunctions; ++i) {
    bool wanted = api == "all" || (api == "default" && by_default(kNames[i]));
    if (api != "off" && api != "launches") wanted |= listed(api, kNames[i]);
    g_cl_wanted[i] = wanted;
  }
}

#define WS_TIME(name) time_entry<&cl_icd_dispatch::name>(table, &table->name, WS_CL(name))

void wrap_rest(cl_icd_dispatch* table) {
  WS_TIME(clGetPlatformIDs);
  WS_TIME(clGetPlatformInfo);
  WS_TIME(clGetDeviceIDs);
  WS_TIME(clGetDeviceInfo);
  WS_TIME(clRetainContext);
  WS_TIME(clReleaseContext);
  WS_TIME(clGetContextInfo);
  WS_TIME(clGetSupportedImageFormats);
  WS_TIME(clGetMemObjectInfo);
  WS_TIME(clGetImageInfo);
  WS_TIME(clCreateSampler);
  WS_TIME(clRetainSampler);
  WS_TIME(clReleaseSampler);
  WS_TIME(clGetSamplerInfo);
  WS_TIME(clCreateProgramWithSource);
  WS_TIME(clCreateProgramWithBinary);
  WS_TIME(clRetainProgram);
  WS_TIME(clReleaseProgram);
  WS_TIME(clUnloadCompiler);
  WS_TIME(clGetProgramInfo);
  WS_TIME(clGetProgramBuildInfo);
  WS_TIME(clRetainKernel);
  WS_TIME(clReleaseKernel);
  WS_TIME(clGetKernelInfo);
  WS_TIME(clGetKernelWorkGroupInfo);
  WS_TIME(clGetEventInfo);
  WS_TIME(clRetainEvent);
  WS_TIME(clReleaseEvent);
  WS_TIME(clGetExtensionFunctionAddress);
  WS_TIME(clCreateFromGLBuffer);
  WS_TIME(clCreateFromGLTexture2D);
  WS_TIME(clCreateFromGLTexture3D);
  WS_TIME(clCreateFromGLRenderbuffer);
  WS_TIME(clGetGLObjectInfo);
  WS_TIME(clGetGLTextureInfo);
  WS_TIME(clEnqueueAcquireGLObjects);
  WS_TIME(clEnqueueReleaseGLObjects);
  WS_TIME(clGetGLContextInfoKHR);
  WS_TIME(clSetEventCallback);
  WS_TIME(clCreateSubBuffer);
  WS_TIME(clSetMemObjectDestructorCallback);
  WS_TIME(clCreateSubDevicesEXT);
  WS_TIME(clRetainDeviceEXT);
  WS_TIME(clReleaseDeviceEXT);
  WS_TIME(clCreateEventFromGLsyncKHR);
  WS_TIME(clCreateSubDevices);
  WS_TIME(clRetainDevice);
  WS_TIME(clReleaseDevice);
  WS_TIME(clCreateProgramWithBuiltInKernels);
  WS_TIME(clUnloadPlatformCompiler);
  WS_TIME(clGetKernelArgInfo);
  WS_TIME(clGetExtensionFunctionAddressForPlatform);
  WS_TIME(clCreateFromGLTexture);
  WS_TIME(clCreateFromEGLImageKHR);
  WS_TIME(clEnqueueAcquireEGLObjectsKHR);
  WS_TIME(clEnqueueReleaseEGLObjectsKHR);
  WS_TIME(clCreateEventFromEGLSyncKHR);
  WS_TIME(clGetPipeInfo);
  WS_TIME(clCreateSamplerWithProperties);
  WS_TIME(clSetKernelArgSVMPointer);
  WS_TIME(clSetKernelExecInfo);
  WS_TIME(clGetKernelSubGroupInfoKHR);
  WS_TIME(clCreateProgramWithIL);
  WS_TIME(clGetDeviceAndHostTimer);
  WS_TIME(clGetHostTimer);
  WS_TIME(clGetKernelSubGroupInfo);
  WS_TIME(clSetDefaultDeviceCommandQueue);
  WS_TIME(clSetProgramReleaseCallback);
  WS_TIME(clSetProgramSpecializationConstant);
  WS_TIME(clSetContextDestructorCallback);
}

}  // namespace warpsight
