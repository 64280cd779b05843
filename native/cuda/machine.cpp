#include "cuda/machine.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "cuda/cuda.h"
#include "cuda/functions.h"
#include "maca/devices.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

struct KnownStream {
  uint32_t context, stream, device;
};

// Everything below is cold: contexts, streams and modules come and go rarely. Nothing calls CUPTI while
// holding it.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the containers
struct Known {
  std::unordered_set<uint32_t> devices;  // that have a row; rows last for all recordings of a process
  std::unordered_map<uint32_t, uint32_t> device_of_context;  // of contexts that have a row
  std::unordered_map<const void*, KnownStream> streams;      // by handle, for names given through NVTX
};
Known& known() {
  static Known* const value = new Known;  // never destroyed: callbacks outlive static destructors
  return *value;
}
std::atomic<bool> g_context_seen{false};

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
};

std::string uuid_text(const CUuuid& uuid) {
  const auto* b = reinterpret_cast<const unsigned char*>(uuid.bytes);
  char text[48];
  snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
           b[15]);
  return text;
}

std::string cuda_version_text() {
  int version = 0;
  if (driver().get_version == nullptr || driver().get_version(&version) != CUDA_SUCCESS) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Attributes only available from the driver: PCI address and memory clock. Such queries are safe during a
// stream capture.
void ask_driver(Device* row) {
  CUdevice device = 0;
  const auto& d = driver();
  if (d.device_get == nullptr || d.device_get(&device, static_cast<int>(row->device)) != CUDA_SUCCESS) return;
  char pci[32] = {};
  if (d.device_pci != nullptr && d.device_pci(pci, sizeof pci, device) == CUDA_SUCCESS)
    row->pci = intern(pci);
  int value = 0;
  if (d.device_attribute == nullptr) return;
  if (d.device_attribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) == CUDA_SUCCESS) {
    row->memory_clock_khz = static_cast<uint32_t>(value);
  }
  if (d.device_attribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) ==
      CUDA_SUCCESS) {
    row->threads_per_multiprocessor = static_cast<uint32_t>(value);
  }
}

// Writes the context's row unless it has one.
void write_context_once(uint32_t context, uint32_t device, uint32_t null_stream, OnFull on_full) {
  Context row = {};
  row.context = context;
  row.device = device;
  row.time = now_ns();
  row.null_stream = null_stream;
  row.api = profiler() == Profiler::mcpti ? kBackendMaca : kBackendCuda;
  {
    Guard guard;
    if (!known().device_of_context.emplace(context, device).second) return;
  }
  write(row, on_full);
}

uint32_t device_of(uint32_t context) {
  Guard guard;
  const auto found = known().device_of_context.find(context);
  return found == known().device_of_context.end() ? 0 : found->second;
}

// Fills the fields of CUPTI's device record; false if the driver does not answer.
bool describe_by_driver(uint32_t index, CUpti_ActivityDevice5* record, char* name, int name_bytes) {
  const auto& d = driver();
  CUdevice device = 0;
  if (d.device_get == nullptr || d.device_attribute == nullptr || d.device_name == nullptr) return false;
  if (d.device_get(&device, static_cast<int>(index)) != CUDA_SUCCESS) return false;
  const auto ask = [&](CUdevice_attribute attribute) {
    int value = 0;
    return d.device_attribute(&value, attribute, device) == CUDA_SUCCESS ? static_cast<uint32_t>(value) : 0u;
  };
  d.device_name(name, name_bytes, device);
  record->name = name;
  record->id = index;
  if (d.device_uuid != nullptr) d.device_uuid(&record->uuid, device);
  size_t bytes = 0;
  if (d.device_memory != nullptr && d.device_memory(&bytes, device) == CUDA_SUCCESS) {
    record->globalMemorySize = bytes;
  }
  // Twice the clock (kHz), for double data rate, times the bus width in bytes: kBytes/s.
  record->globalMemoryBandwidth = uint64_t{2} * ask(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                                  ask(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  record->numMultiprocessors = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  record->computeCapabilityMajor = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  record->computeCapabilityMinor = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  record->numThreadsPerWarp = ask(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  record->maxRegistersPerMultiprocessor = ask(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  record->maxSharedMemoryPerMultiprocessor = ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  record->maxBlocksPerMultiprocessor = ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  record->coreClockRate = ask(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  return true;
}

}  // namespace

void write_device(const CUpti_ActivityDevice5& d) {
  {
    Guard guard;
    if (!known().devices.insert(d.id).second) return;
  }
  Device row = {};
  row.device = d.id;
  row.name = intern(d.name != nullptr ? d.name : "");
  row.uuid = intern(uuid_text(d.uuid));
  row.vendor = intern("NVIDIA");
  row.platform = kBackendCuda;
  row.memory_bytes = d.globalMemorySize;
  row.memory_bandwidth = d.globalMemoryBandwidth * 1000;  // CUPTI reports kBytes/s
  row.multiprocessors = d.numMultiprocessors;
  row.compute_major = d.computeCapabilityMajor;
  row.compute_minor = d.computeCapabilityMinor;
  row.warp_size = d.numThreadsPerWarp;
  row.registers_per_multiprocessor = d.maxRegistersPerMultiprocessor;
  row.shared_per_multiprocessor = d.maxSharedMemoryPerMultiprocessor;
  row.threads_per_multiprocessor = d.maxWarpsPerMultiprocessor * d.numThreadsPerWarp;
  row.blocks_per_multiprocessor = d.maxBlocksPerMultiprocessor;
  row.clock_khz = d.coreClockRate;
  ask_driver(&row);
  row.driver = intern("CUDA " + cuda_version_text());
  row.runtime = intern("CUPTI " + std::to_string(cupti().version));
  write(row, OnFull::wait);
}

void write_context(const CUpti_ActivityContext3& c) {
  g_context_seen.store(true, std::memory_order_relaxed);
  write_context_once(c.contextId, c.deviceId, c.nullStreamId, OnFull::wait);
}

void note_context(uint32_t context, uint32_t device) {
  g_context_seen.store(true, std::memory_order_relaxed);
  write_context_once(context, device, 0, OnFull::wait);
  if (profiler() == Profiler::mcpti) return write_maca_device(device);
  {
    Guard guard;
    if (known().devices.count(device) != 0) return;
  }
  CUpti_ActivityDevice5 record = {};
  char name[256] = "";
  if (describe_by_driver(device, &record, name, sizeof name)) write_device(record);
}

void write_stream(const CUpti_ActivityStream& s) {
  Stream row = {};
  row.context = s.contextId;
  row.stream = s.streamId;
  row.priority = s.priority;
  row.flags = static_cast<uint32_t>(s.flag);
  row.device = device_of(s.contextId);
  row.time = now_ns();
  write(row, OnFull::wait);
}

void context_created(CUcontext context) {
  g_context_seen.store(true, std::memory_order_relaxed);
  uint32_t id = 0, device = 0, null_stream = 0;
  if (cupti().cuptiGetContextId == nullptr || cupti().cuptiGetContextId(context, &id) != CUPTI_SUCCESS)
    return;
  if (cupti().cuptiGetDeviceId != nullptr) cupti().cuptiGetDeviceId(context, &device);
  if (cupti().cuptiGetStreamId != nullptr) cupti().cuptiGetStreamId(context, nullptr, &null_stream);
  write_context_once(id, device, null_stream, OnFull::drop);
}

void stream_created(CUcontext context, CUstream stream) {
  uint32_t context_id = 0, id = 0;
  const auto& c = cupti();
  if (c.cuptiGetContextId == nullptr || c.cuptiGetContextId(context, &context_id) != CUPTI_SUCCESS) return;
  if (c.cuptiGetStreamId == nullptr || c.cuptiGetStreamId(context, stream, &id) != CUPTI_SUCCESS) return;
  const uint32_t device = device_of(context_id);
  Guard guard;
  known().streams[stream] = {context_id, id, device};
}

void stream_destroyed(CUstream stream) {
  Guard guard;
  known().streams.erase(stream);
}

bool name_cuda_stream(const void* handle, uint32_t name) {
  KnownStream stream;
  {
    Guard guard;
    const auto found = known().streams.find(handle);
    if (found == known().streams.end()) return false;
    stream = found->second;
  }
  Stream row = {};
  row.context = stream.context;
  row.stream = stream.stream;
  row.name = name;
  row.device = stream.device;
  row.time = now_ns();
  return write(row);
}

uint32_t device_of_context(uint32_t context) { return device_of(context); }

std::string device_identity(uint32_t number) {
  CUdevice device = 0;
  CUuuid uuid = {};
  char pci[32] = {};
  const auto& d = driver();
  if (d.device_get == nullptr || d.device_get(&device, static_cast<int>(number)) != CUDA_SUCCESS)
    return std::to_string(number);
  if (d.device_uuid != nullptr && d.device_uuid(&uuid, device) == CUDA_SUCCESS) return uuid_text(uuid);
  if (d.device_pci != nullptr && d.device_pci(pci, sizeof pci, device) == CUDA_SUCCESS) return pci;
  return std::to_string(number);
}

bool context_seen() { return g_context_seen.load(std::memory_order_relaxed); }

}  // namespace warpsight
