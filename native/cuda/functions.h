// Every CUPTI and CUDA function the recorder calls, found at run time: nothing here links to either library.
// MetaX' MCPTI has CUPTI's functions under names that begin with mcpti instead: one table serves both.
#pragma once

#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_sass_metrics.h>
#include <cupti_target.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace warpsight {

// Required: a libcupti or libmcpti without one of these is refused.
#define WARPSIGHT_CUPTI_RECORDS(X)     \
  X(cuptiActivityDisable)              \
  X(cuptiActivityEnable)               \
  X(cuptiActivityFlushAll)             \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiGetVersion)

// Required of a libcupti; a libmcpti without them records less, and native/maca checks each use.
#define WARPSIGHT_CUPTI_REQUIRED(X) \
  X(cuptiActivitySetAttribute)      \
  X(cuptiEnableCallback)            \
  X(cuptiSubscribe)                 \
  X(cuptiUnsubscribe)

// Optional: null when this library is too old; every use checks.
#define WARPSIGHT_CUPTI_OPTIONAL(X)               \
  X(cuptiActivityConfigureUnifiedMemoryCounter)   \
  X(cuptiActivityEnableAllSyncRecords)            \
  X(cuptiActivityEnableCudaEventDeviceTimestamps) \
  X(cuptiActivityEnableDeviceGraph)               \
  X(cuptiActivityRegisterTimestampCallback)       \
  X(cuptiDeviceGetChipName)                       \
  X(cuptiEnableDomain)                            \
  X(cuptiFinalize)                                \
  X(cuptiGetCallbackName)                         \
  X(cuptiGetCallbackState)                        \
  X(cuptiGetContextId)                            \
  X(cuptiGetDeviceId)                             \
  X(cuptiGetGraphExecId)                          \
  X(cuptiGetGraphId)                              \
  X(cuptiGetGraphNodeId)                          \
  X(cuptiGetResultString)                         \
  X(cuptiGetStreamId)                             \
  X(cuptiGetTimestamp)                            \
  X(cuptiPCSamplingDisable)                       \
  X(cuptiPCSamplingEnable)                        \
  X(cuptiPCSamplingGetData)                       \
  X(cuptiPCSamplingGetNumStallReasons)            \
  X(cuptiPCSamplingGetStallReasons)               \
  X(cuptiPCSamplingSetConfigurationAttribute)     \
  X(cuptiPmSamplingCounterDataGetSampleInfo)      \
  X(cuptiPmSamplingCounterDataImageInitialize)    \
  X(cuptiPmSamplingDecodeData)                    \
  X(cuptiPmSamplingDisable)                       \
  X(cuptiPmSamplingEnable)                        \
  X(cuptiPmSamplingGetCounterAvailability)        \
  X(cuptiPmSamplingGetCounterDataInfo)            \
  X(cuptiPmSamplingGetCounterDataSize)            \
  X(cuptiPmSamplingSetConfig)                     \
  X(cuptiPmSamplingStart)                         \
  X(cuptiPmSamplingStop)                          \
  X(cuptiProfilerGetCounterAvailability)          \
  X(cuptiProfilerHostConfigAddMetrics)            \
  X(cuptiProfilerHostDeinitialize)                \
  X(cuptiProfilerHostEvaluateToGpuValues)         \
  X(cuptiProfilerHostGetConfigImage)              \
  X(cuptiProfilerHostGetConfigImageSize)          \
  X(cuptiProfilerHostGetMetricProperties)         \
  X(cuptiProfilerHostGetNumOfPasses)              \
  X(cuptiProfilerHostInitialize)                  \
  X(cuptiProfilerInitialize)                      \
  X(cuptiRangeProfilerCounterDataGetRangeInfo)    \
  X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerDecodeData)                 \
  X(cuptiRangeProfilerDisable)                    \
  X(cuptiRangeProfilerEnable)                     \
  X(cuptiRangeProfilerGetCounterDataInfo)         \
  X(cuptiRangeProfilerGetCounterDataSize)         \
  X(cuptiRangeProfilerPopRange)                   \
  X(cuptiRangeProfilerPushRange)                  \
  X(cuptiRangeProfilerSetConfig)                  \
  X(cuptiRangeProfilerStart)                      \
  X(cuptiRangeProfilerStop)                       \
  X(cuptiRegisterComputeCrcCallback)              \
  X(cuptiSassMetricsDisable)                      \
  X(cuptiSassMetricsEnable)                       \
  X(cuptiSassMetricsFlushData)                    \
  X(cuptiSassMetricsGetDataProperties)            \
  X(cuptiSassMetricsGetMetrics)                   \
  X(cuptiSassMetricsGetNumOfMetrics)              \
  X(cuptiSassMetricsSetConfig)                    \
  X(cuptiSassMetricsUnsetConfig)                  \
  X(cuptiSetThreadIdType)

struct CuptiFunctions {
#define WARPSIGHT_POINTER(name) decltype(&::name) name = nullptr;
  WARPSIGHT_CUPTI_RECORDS(WARPSIGHT_POINTER)
  WARPSIGHT_CUPTI_REQUIRED(WARPSIGHT_POINTER)
  WARPSIGHT_CUPTI_OPTIONAL(WARPSIGHT_POINTER)
#undef WARPSIGHT_POINTER
  uint32_t version = 0;  // cuptiGetVersion
};

// All optional: a stand-in or an old driver may lack some. The spelled-out pairs are (member, exported
// symbol), because cuda.h renames functions with macros.
#define WARPSIGHT_DRIVER_FUNCTIONS(X)                                                                \
  X(get_version, "cuDriverGetVersion", CUresult (*)(int*))                                           \
  X(device_get_count, "cuDeviceGetCount", CUresult (*)(int*))                                        \
  X(device_get, "cuDeviceGet", CUresult (*)(CUdevice*, int))                                         \
  X(device_attribute, "cuDeviceGetAttribute", CUresult (*)(int*, CUdevice_attribute, CUdevice))      \
  X(device_name, "cuDeviceGetName", CUresult (*)(char*, int, CUdevice))                              \
  X(device_uuid, "cuDeviceGetUuid_v2", CUresult (*)(CUuuid*, CUdevice))                              \
  X(device_memory, "cuDeviceTotalMem_v2", CUresult (*)(size_t*, CUdevice))                           \
  X(device_pci, "cuDeviceGetPCIBusId", CUresult (*)(char*, int, CUdevice))                           \
  X(primary_state, "cuDevicePrimaryCtxGetState", CUresult (*)(CUdevice, unsigned*, int*))            \
  X(current_context, "cuCtxGetCurrent", CUresult (*)(CUcontext*))                                    \
  X(stream_is_capturing, "cuStreamIsCapturing", CUresult (*)(CUstream, CUstreamCaptureStatus*))      \
  X(stream_query, "cuStreamQuery", CUresult (*)(CUstream))                                           \
  X(device_mem_pool, "cuDeviceGetMemPool", CUresult (*)(CUmemoryPool*, CUdevice))                    \
  X(pool_attribute, "cuMemPoolGetAttribute", CUresult (*)(CUmemoryPool, CUmemPool_attribute, void*)) \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", CUresult (*)(CUstreamCaptureMode*))

struct DriverFunctions {
#define WARPSIGHT_POINTER(member, symbol, ...) \
  std::add_pointer_t<std::remove_pointer_t<__VA_ARGS__>> member = nullptr;
  WARPSIGHT_DRIVER_FUNCTIONS(WARPSIGHT_POINTER)
#undef WARPSIGHT_POINTER
};

// Filled by load_libraries(), constant afterwards.
const CuptiFunctions& cupti();
const DriverFunctions& driver();

// "name (code)" of a CUPTI result, for loss rows.
const char* result_name(CUptiResult result);

// Finds libcuda (loaded by the program) and a matching libcupti and fills the tables; if there is none, a
// loss row says why. Returns true immediately if already done.
bool load_libraries();

// Fills the table from a libmcpti. The names of required functions that it lacks, comma-separated, "" when it
// has all; optional ones stay null.
std::string load_mcpti(void* library);
void set_cupti_version(uint32_t version);

// A process uses one of the two libraries: the first caller permanently owns the table, the buffers and the
// decoder. True for that caller, then and later.
enum class Profiler : uint32_t { none, cupti, mcpti };
bool claim_profiler(Profiler which);
Profiler profiler();
const char* profiler_name();    // "CUPTI" or "MCPTI"
const char* profiler_source();  // the same as the source of loss rows

}  // namespace warpsight
