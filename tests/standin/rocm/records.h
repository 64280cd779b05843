// rocprofiler-sdk's records and callbacks as its versions lay them out, and the names of its kinds and
// operations.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace {

struct Id {
  uint64_t handle;
};
struct Correlation {
  uint64_t internal, external;
};
struct OldRecord {
  uint64_t context, thread;
  uint64_t internal, external;
  int32_t kind, operation, phase;
  void* payload;
};
struct NewRecord {
  uint64_t context, thread;
  uint64_t internal, external, ancestor;
  int32_t kind, operation, phase;
  void* payload;
};
using OldCallback = void (*)(OldRecord, uint64_t*, void*);
using NewCallback = void (*)(NewRecord, uint64_t*, void*);
using BufferCallback = void (*)(Id, Id, void**, size_t, void*, uint64_t);
using RequestCallback = int (*)(uint64_t, Id, int, int, uint64_t, uint64_t*, void*);
struct Header {
  uint32_t category, kind;
  void* payload;
};
struct Dispatch {
  uint64_t size, agent, queue, kernel, dispatch;
  uint32_t scratch, lds;
  uint32_t block[3], items[3];
  uint8_t reserved[56];
};
struct KernelRecord {
  uint64_t size;
  int32_t kind, operation;
  Correlation correlation;
  uint64_t thread, start, end;
  Dispatch info;
  uint8_t to_come[32];
};
struct CopyRecord {
  uint64_t size;
  int32_t kind, operation;
  Correlation correlation;
  uint64_t thread, start, end, destination_agent, source_agent, bytes, destination, source;
  uint8_t to_come[32];
};

enum { HIP = 5, MARKER = 7, CODE = 10, DISPATCH = 12, COPIES = 10, KERNELS = 11 };
const char* const kCallbackKinds[] = {"NONE",
                                      "HSA_CORE_API",
                                      "HSA_AMD_EXT_API",
                                      "HSA_IMAGE_EXT_API",
                                      "HSA_FINALIZE_EXT_API",
                                      "HIP_RUNTIME_API",
                                      "HIP_COMPILER_API",
                                      "MARKER_CORE_API",
                                      "MARKER_CONTROL_API",
                                      "MARKER_NAME_API",
                                      "CODE_OBJECT",
                                      "SCRATCH_MEMORY",
                                      "KERNEL_DISPATCH",
                                      "MEMORY_COPY"};
const char* const kBufferKinds[] = {"NONE",
                                    "HSA_CORE_API",
                                    "HSA_AMD_EXT_API",
                                    "HSA_IMAGE_EXT_API",
                                    "HSA_FINALIZE_EXT_API",
                                    "HIP_RUNTIME_API",
                                    "HIP_COMPILER_API",
                                    "MARKER_CORE_API",
                                    "MARKER_CONTROL_API",
                                    "MARKER_NAME_API",
                                    "MEMORY_COPY",
                                    "KERNEL_DISPATCH"};
// Operation numbers are places in these lists, plus `renumber`; the last of HIP's is one that no list has.
const char* const kHip[] = {"hipInit",
                            "hipLaunchKernel",
                            "hipExtLaunchKernel",
                            "hipModuleLaunchKernel",
                            "hipExtModuleLaunchKernel",
                            "hipLaunchKernelExC",
                            "hipGraphLaunch",
                            "hipMemcpy",
                            "hipMemcpyAsync",
                            "hipMemset",
                            "hipMalloc",
                            "hipFree",
                            "hipDeviceSynchronize",
                            "hipStreamSynchronize",
                            "hipStreamCreate",
                            "hipStreamDestroy",
                            "hipEventRecord",
                            "hipEventSynchronize",
                            "hipStreamWaitEvent",
                            "hipLaunchKernel_spt",
                            "hipGetDevice",
                            "hipNotInAnyList"};
const char* const kMarkers[] = {"roctxMarkA", "roctxRangePushA", "roctxRangePop", "roctxRangeStartA",
                                "roctxRangeStop"};

}  // namespace
