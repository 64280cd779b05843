#include "cuda/memory_rows.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <unordered_map>

#include "cuda/callbacks.h"
#include "cuda/functions.h"
#include "cuda/stream_ids.h"

namespace warpsight {
namespace {

enum Operation : uint8_t { kNothing, kAllocate, kFree, kPoolCreate, kPoolTrim, kPoolDestroy };

constexpr uint16_t kNoDevice = 65535;
constexpr uint32_t kDevices = 64;  // devices whose current pool is cached; rows for others have no pool
constexpr uint8_t kNone = 0xff;

// Where the arguments of a stream-ordered call have their stream and their pool.
struct Ordered {
  uint16_t cbid;
  uint8_t domain;
  uint8_t stream, pool;  // offsets
};

#define OFFSET(name, field) static_cast<uint8_t>(offsetof(name##_params, field))
#define RUNTIME(name) CUPTI_RUNTIME_TRACE_CBID_##name, CUPTI_CB_DOMAIN_RUNTIME_API
#define DRIVER(name) CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_CB_DOMAIN_DRIVER_API
#define STREAM(domain, name, stream) {domain(name), OFFSET(name, stream), kNone}
#define FROM_POOL(domain, name, pool, stream) {domain(name), OFFSET(name, stream), OFFSET(name, pool)}

constexpr Ordered kOrdered[] = {
    STREAM(RUNTIME, cudaMallocAsync_v11020, hStream),
    STREAM(RUNTIME, cudaMallocAsync_ptsz_v11020, hStream),
    STREAM(RUNTIME, cudaFreeAsync_v11020, hStream),
    STREAM(RUNTIME, cudaFreeAsync_ptsz_v11020, hStream),
    FROM_POOL(RUNTIME, cudaMallocFromPoolAsync_v11020, memPool, stream),
    FROM_POOL(RUNTIME, cudaMallocFromPoolAsync_ptsz_v11020, memPool, stream),
    STREAM(DRIVER, cuMemAllocAsync, hStream),
    STREAM(DRIVER, cuMemAllocAsync_ptsz, hStream),
    STREAM(DRIVER, cuMemFreeAsync, hStream),
    STREAM(DRIVER, cuMemFreeAsync_ptsz, hStream),
    FROM_POOL(DRIVER, cuMemAllocFromPoolAsync, pool, hStream),
    FROM_POOL(DRIVER, cuMemAllocFromPoolAsync_ptsz, pool, hStream),
};

// A device's current pool changes only by cuDeviceSetMemPool, whose calls we see, so it is queried once.
std::atomic<uint64_t> g_current_pool[kDevices];

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects known(); nothing is called while it is held
struct Known {
  std::unordered_map<uint64_t, uint64_t> pool_of_address;  // allocations that live
  std::unordered_map<uint64_t, uint16_t> device_of_pool;   // pools that the program made
};
Known& known() {
  static auto* const value = new Known;  // never destroyed: callbacks outlive static destructors
  return *value;
}
std::atomic<bool> g_pools_used{false};  // pool_of_address has had an entry

bool named(const ApiRule& rule, const char* part) { return strstr(rule.name, part) != nullptr; }

template <class T>
T argument(const CUpti_CallbackData& call, size_t offset) {
  T value = {};
  if (call.functionParams != nullptr)
    memcpy(&value, static_cast<const char*>(call.functionParams) + offset, sizeof value);
  return value;
}

const Ordered* ordered_call(const ApiRule& rule) {
  for (const Ordered& one : kOrdered) {
    if (one.cbid == rule.cbid && one.domain == rule.domain) return &one;
  }
  return nullptr;
}

Operation operation_of(const ApiRule& rule) {
  if (named(rule, "SetMemPool")) return kNothing;
  if (named(rule, "PoolCreate") || named(rule, "PoolImport")) return kPoolCreate;
  if (named(rule, "PoolTrim")) return kPoolTrim;
  if (named(rule, "PoolDestroy")) return kPoolDestroy;
  return named(rule, "Free") ? kFree : kAllocate;
}

uint8_t memory_kind(const ApiRule& rule) {
  if (named(rule, "Host")) return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  return named(rule, "Managed") ? CUPTI_ACTIVITY_MEMORY_KIND_MANAGED : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
}

uint16_t device_of_call(const CUpti_CallbackData& call) {
  uint32_t device = kNoDevice;
  if (cupti().cuptiGetDeviceId != nullptr && call.context != nullptr &&
      cupti().cuptiGetDeviceId(call.context, &device) != CUPTI_SUCCESS)
    device = kNoDevice;
  return static_cast<uint16_t>(device);
}

uint64_t current_pool(uint16_t device) {
  if (device >= kDevices || driver().device_mem_pool == nullptr) return 0;
  uint64_t pool = g_current_pool[device].load(std::memory_order_relaxed);
  if (pool != 0) return pool;
  const OwnCall ours;
  CUmemoryPool asked = nullptr;
  if (driver().device_mem_pool(&asked, device) != CUDA_SUCCESS) return 0;
  pool = reinterpret_cast<uint64_t>(asked);
  g_current_pool[device].store(pool, std::memory_order_relaxed);
  return pool;
}

// cuDeviceSetMemPool and the like: (device, pool), or (location, type, pool).
void pool_was_set(const ApiRule& rule, const CUpti_CallbackData& call) {
  if (named(rule, "DeviceSetMemPool")) {
    const auto device = static_cast<uint32_t>(argument<int>(call, 0));
    if (device < kDevices) g_current_pool[device].store(argument<uint64_t>(call, sizeof(uint64_t)));
    return;
  }
  for (auto& pool : g_current_pool) pool.store(0);
}

uint64_t pool_of_allocation(const CUpti_CallbackData& call, const Ordered& ordered, const Memory& row) {
  const uint64_t pool =
      ordered.pool != kNone ? argument<uint64_t>(call, ordered.pool) : current_pool(row.device);
  if (pool == 0) return 0;
  pthread_mutex_lock(&g_lock);
  known().pool_of_address[row.address] = pool;
  pthread_mutex_unlock(&g_lock);
  g_pools_used.store(true, std::memory_order_relaxed);
  return pool;
}

uint64_t pool_of_freed(uint64_t address) {
  if (!g_pools_used.load(std::memory_order_relaxed)) return 0;
  uint64_t pool = 0;
  pthread_mutex_lock(&g_lock);
  const auto found = known().pool_of_address.find(address);
  if (found != known().pool_of_address.end()) {
    pool = found->second;
    known().pool_of_address.erase(found);
  }
  pthread_mutex_unlock(&g_lock);
  return pool;
}

uint16_t device_of_new_pool(const ApiRule& rule, const CUpti_CallbackData& call, uint16_t otherwise) {
  if (!named(rule, "PoolCreate")) return otherwise;
  // cudaMemPoolProps and CUmemPoolProps are the same.
  const auto* const properties = argument<const CUmemPoolProps*>(call, sizeof(void*));
  if (properties == nullptr) return otherwise;
  return properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE
             ? static_cast<uint16_t>(properties->location.id)
             : kNoDevice;
}

void describe_pool(const ApiRule& rule, const CUpti_CallbackData& call, Memory* row) {
  row->pool = row->address;
  row->kind = 0;
  row->bytes = 0;  // a trim's argument is what stays
  pthread_mutex_lock(&g_lock);
  auto& devices = known().device_of_pool;
  const auto found = devices.find(row->pool);
  if (row->operation == kPoolCreate) {
    devices[row->pool] = row->device = device_of_new_pool(rule, call, row->device);
  } else if (found != devices.end()) {
    row->device = found->second;
    if (row->operation == kPoolDestroy) devices.erase(found);
  }
  pthread_mutex_unlock(&g_lock);
  if (row->operation == kPoolDestroy || driver().pool_attribute == nullptr) return;
  const OwnCall ours;
  const auto pool = reinterpret_cast<CUmemoryPool>(row->pool);
  cuuint64_t reserved = 0, used = 0;
  if (driver().pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS)
    row->pool_size = reserved;
  if (driver().pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS)
    row->pool_used = used;
}

}  // namespace

void write_memory_row(const ApiRule& rule, const CUpti_CallbackData& call, const Api& call_row) {
  if (call_row.result != 0) return;
  const Operation operation = operation_of(rule);
  if (operation == kNothing) return pool_was_set(rule, call);
  if (call_row.object == 0) return;
  Memory row = {};
  row.time = call_row.start + call_row.duration;
  row.address = call_row.object;
  row.bytes = call_row.bytes;
  row.correlation = call_row.correlation;
  row.context = call.contextUid;
  row.stream = kNoStreamId;
  row.stack = call_row.stack;
  row.operation = operation;
  row.kind = memory_kind(rule);
  row.allocator = intern_c("CUDA");  // runtime and driver can free each other's allocations
  row.device = device_of_call(call);
  const Ordered* const ordered = ordered_call(rule);
  if (ordered != nullptr) row.stream = stream_id(call, argument<uint64_t>(call, ordered->stream));
  if (operation == kFree) row.pool = pool_of_freed(row.address);
  if (operation == kAllocate && ordered != nullptr) row.pool = pool_of_allocation(call, *ordered, row);
  if (operation >= kPoolCreate) describe_pool(rule, call, &row);
  write(row);
}

}  // namespace warpsight
