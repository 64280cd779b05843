// What we use of rocprofiler-sdk's binary interface, written from its public documentation: nothing of ROCm
// is needed to build, and nothing is linked. Served are 0.4 to 0.6 (ROCm 6.2 to 6.4) and 1.x (ROCm 7 and
// newer).
//
// Most structs begin with their own size; has() says whether a field is within what the library wrote, so a
// newer one is read as far as we know it, and an older one as far as it reaches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight::rocm {

using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kNotStarted = 11, kConflict = 12;  // of rocprofiler_start_context

// Versions as rocprofiler_configure receives them: 10000 * major + 100 * minor + patch.
constexpr uint32_t kOldest = 400, kFirstUnstable = 700, kFirstStable = 10000, kFirstUnknown = 20000;

struct ContextId {
  uint64_t handle;
};
struct BufferId {
  uint64_t handle;
};
struct ThreadId {
  uint64_t handle;
};
union UserData {
  uint64_t value;
  void* pointer;
};
struct Dim3 {
  uint32_t x, y, z;
};

// Kinds of both services. Their numbers are the same in all supported versions; their names are checked.
constexpr int kHipRuntimeApi = 5, kMarkerCoreApi = 7, kCodeObject = 10, kKernelDispatchCallback = 12;
constexpr int kMemoryCopy = 10, kKernelDispatch = 11;
constexpr int kRequestMemoryCopy = 11, kRequestKernelDispatch = 12;  // of external correlation ids
constexpr uint32_t kTracingCategory = 1;
constexpr int kLossless = 2;                // buffer policy
constexpr int kEnter = 1, kExit = 2;        // phases; of code objects: load, unload
constexpr int kSymbolRegister = 2;          // operation of kCodeObject
constexpr int kCodeObjectLoad = 1;          // likewise
constexpr int kEnqueue = 1, kComplete = 2;  // operations of kernel dispatches
constexpr int kHostToHost = 1, kHostToDevice = 2, kDeviceToHost = 3, kDeviceToDevice = 4;  // of copies

// Correlation ids of calls gained their ancestor in 1.0; those of asynchronous work stayed as they were.
struct AsyncCorrelation {
  uint64_t internal;
  UserData external;
};
struct OldCorrelation {
  uint64_t internal;
  UserData external;
};
struct NewCorrelation {
  uint64_t internal;
  UserData external;
  uint64_t ancestor;
};

// Passed to callbacks by value, and without a size: the version says which of the two it is.
template <class Correlation>
struct CallbackRecord {
  ContextId context;
  uint64_t thread;
  Correlation correlation;
  int kind;
  int operation;
  int phase;
  void* payload;
};
using OldRecord = CallbackRecord<OldCorrelation>;
using NewRecord = CallbackRecord<NewCorrelation>;
static_assert(sizeof(OldRecord) == 56 && sizeof(NewRecord) == 64);

struct RecordHeader {
  uint32_t category;
  uint32_t kind;
  void* payload;
};

struct DispatchInfo {
  uint64_t size;
  uint64_t agent;
  uint64_t queue;
  uint64_t kernel;
  uint64_t dispatch;
  uint32_t private_bytes;  // per work-item
  uint32_t group_bytes;    // of a work-group, static and dynamic
  Dim3 workgroup;
  Dim3 grid;  // work-items
  uint8_t reserved[56];
};
static_assert(sizeof(DispatchInfo) == 128);

struct DispatchRecord {
  uint64_t size;
  int kind, operation;
  AsyncCorrelation correlation;
  uint64_t thread;
  uint64_t start, end;
  DispatchInfo info;
};
static_assert(offsetof(DispatchRecord, info) == 56);

// The payload of a dispatch's callback.
struct DispatchData {
  uint64_t size;
  uint64_t start, end;
  DispatchInfo info;
};

struct CopyRecord {
  uint64_t size;
  int kind, operation;
  AsyncCorrelation correlation;
  uint64_t thread;
  uint64_t start, end;
  uint64_t destination_agent, source_agent;
  uint64_t bytes;
};

// The payload of a code object's callback.
struct CodeObjectData {
  uint64_t size;
  uint64_t id;
  uint64_t agent;
  uint64_t hsa_agent;
  const char* uri;
  uint64_t load_base, load_size;
  int64_t load_delta;
};

// The payload of a kernel symbol's callback.
struct SymbolData {
  uint64_t size;
  uint64_t kernel;
  uint64_t code_object;
  const char* name;
  uint64_t object;
  uint32_t arguments_bytes, arguments_alignment;
  uint32_t group_bytes, private_bytes;
  uint32_t scalar_registers, vector_registers, accumulation_registers;
};

// The payload of a call: its size, its arguments from kArguments on, and its result at the end, in the last
// bytes of a union: one of hipChannelFormatDesc and others for HIP, one of eight bytes for ROCTx.
constexpr size_t kArguments = 8, kHipResultBytes = 24, kMarkerResultBytes = 8;

struct MemoryBank {
  uint32_t heap;  // 1 and 2: the device's own memory
  uint32_t flags;
  uint32_t width_bits;
  uint32_t clock_mhz;
  uint64_t bytes;
};

struct Agent {
  uint64_t size;
  uint64_t id;
  int type;
  uint32_t cpu_cores, simds, memory_banks, caches, links, cpu_core_base, simd_base;
  uint32_t waves_per_simd, lds_kilobytes, gds_kilobytes, gws, wave_size, xccs, compute_units;
  uint32_t arrays, shader_banks, arrays_per_engine, units_per_array, simds_per_unit, scratch_slots;
  uint32_t target_version;  // gfx: 10000 * major + 100 * minor + stepping
  uint16_t vendor, device;
  uint32_t location, domain, render_minor, sdma_engines, xgmi_engines, sdma_queues, compute_queues;
  uint32_t cpu_clock_mhz, clock_mhz;
  uint32_t sdma_firmware, firmware, capability;
  uint32_t units_per_engine, waves_per_unit, family, workgroup_size, grid_size;
  uint64_t local_bytes, hive, gpu;
  Dim3 workgroup_dimensions, grid_dimensions;
  const MemoryBank* banks;
  const void* cache_list;
  const void* link_list;
  const char* name;
  const char* vendor_name;
  const char* product_name;
  const char* model_name;
  uint32_t node;
  int32_t number, number_of_type;
  uint32_t visibility;
  uint8_t uuid[16];  // since 1.0
};
static_assert(offsetof(Agent, vendor) == 104 && offsetof(Agent, local_bytes) == 176 &&
              offsetof(Agent, banks) == 224 && offsetof(Agent, uuid) == 296);
constexpr int kGpu = 2;              // Agent::type
constexpr int kAgentVersion = 1;     // of rocprofiler_query_available_agents
constexpr size_t kAgentBytes = 296;  // the shortest we ask for: without the UUID

// Whether a struct that says it has `size` bytes has this field.
#define WARPSIGHT_ROCM_HAS(record, Type, field) \
  ((record).size >= offsetof(Type, field) + sizeof(static_cast<Type*>(nullptr)->field))

template <class Record>
using CallbackFunction = void (*)(Record, UserData*, void*);
using AnyCallback = void (*)();
using BufferFunction = void (*)(ContextId, BufferId, RecordHeader**, size_t, void*, uint64_t);
using RequestFunction = int (*)(uint64_t thread, ContextId, int kind, int operation, uint64_t internal,
                                UserData* external, void*);
using AgentsFunction = Status (*)(int version, const void** agents, size_t count, void*);
using OperationFunction = int (*)(int kind, int operation, void*);

// What rocprofiler_configure gives back.
struct ConfigureResult {
  size_t size;
  int (*initialize)(void (*finalize)(), void* data);
  void (*finalize)(void* data);
  void* data;
};

}  // namespace warpsight::rocm
