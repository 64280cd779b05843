// Devices and contexts: their rows, and one clock per physical device.
#include <cstdio>
#include <new>

#include "../runtime/runtime.h"
#include "objects.h"
#include "recorder.h"

namespace warpsight {
namespace {

// Vendor extensions that the headers may lack.
constexpr cl_device_info kNvComputeMajor = 0x4000, kNvComputeMinor = 0x4001, kNvWarpSize = 0x4003;
constexpr cl_device_info kNvPciBus = 0x4008, kNvPciSlot = 0x4009, kAmdWavefront = 0x4043;
constexpr cl_device_info kPciBusInfo = 0x410F, kUuid = 0x106A;
constexpr cl_uint kVendorNvidia = 0x10DE;

HandleMap<ClDevice*>& devices() {
  static auto& map = *new HandleMap<ClDevice*>;
  return map;
}

HandleMap<ClContext*>& contexts() {
  static auto& map = *new HandleMap<ClContext*>;
  return map;
}

template <class Value>
Value value_of(cl_device_id device, cl_device_info what) {
  Value value{};
  if (g_cl.clGetDeviceInfo(device, what, sizeof(value), &value, nullptr) != CL_SUCCESS) return Value{};
  return value;
}

std::string text_of(cl_device_id device, cl_device_info what) {
  char text[512] = "";
  if (g_cl.clGetDeviceInfo(device, what, sizeof(text) - 1, text, nullptr) != CL_SUCCESS) return "";
  return text;
}

std::string platform_text(cl_device_id device, cl_platform_info what) {
  char text[256] = "";
  auto platform = value_of<cl_platform_id>(device, CL_DEVICE_PLATFORM);
  if (!platform || g_cl.clGetPlatformInfo(platform, what, sizeof(text) - 1, text, nullptr) != CL_SUCCESS)
    return "";
  return text;
}

std::string pci_of(cl_device_id device) {
  char text[32] = "";
  cl_uint place[4] = {};
  if (g_cl.clGetDeviceInfo(device, kPciBusInfo, sizeof(place), place, nullptr) == CL_SUCCESS) {
    snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", place[0], place[1], place[2], place[3]);
  } else if (value_of<cl_uint>(device, CL_DEVICE_VENDOR_ID) == kVendorNvidia) {
    auto slot = value_of<cl_uint>(device, kNvPciSlot);
    snprintf(text, sizeof(text), "0000:%02x:%02x.%x", value_of<cl_uint>(device, kNvPciBus), slot >> 3,
             slot & 7);
  }
  return text;
}

// NVIDIA's in the spelling CUDA uses, so that both recorders mean the same device. Devices without an id get
// one that stays the same from run to run.
std::string uuid_of(cl_device_id device, uint16_t index) {
  unsigned char id[16] = {};
  char text[64];
  if (g_cl.clGetDeviceInfo(device, kUuid, sizeof(id), id, nullptr) == CL_SUCCESS) {
    bool nvidia = value_of<cl_uint>(device, CL_DEVICE_VENDOR_ID) == kVendorNvidia;
    snprintf(text, sizeof(text), "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             nvidia ? "GPU" : "CL", id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9],
             id[10], id[11], id[12], id[13], id[14], id[15]);
    return text;
  }
  uint64_t hash = hash_bytes(text_of(device, CL_DEVICE_NAME) + platform_text(device, CL_PLATFORM_NAME));
  snprintf(text, sizeof(text), "CL-%016llx-%u", static_cast<unsigned long long>(hash),
           index - kFirstClDevice);
  return text;
}

void write_device(ClDevice& device) {
  cl_device_id id = device.handle;
  Device row{};
  row.device = device.index;
  row.name = intern(text_of(id, CL_DEVICE_NAME));
  row.uuid = intern(uuid_of(id, device.index));
  row.vendor = intern(text_of(id, CL_DEVICE_VENDOR));
  row.pci = intern(pci_of(id));
  row.platform = kBackendOpencl;
  row.memory_bytes = value_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  row.multiprocessors = value_of<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS);
  row.compute_major = value_of<cl_uint>(id, kNvComputeMajor);
  row.compute_minor = value_of<cl_uint>(id, kNvComputeMinor);
  row.warp_size = value_of<cl_uint>(id, kNvWarpSize);
  if (!row.warp_size) row.warp_size = value_of<cl_uint>(id, kAmdWavefront);
  row.shared_per_multiprocessor = static_cast<uint32_t>(value_of<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE));
  row.clock_khz = value_of<cl_uint>(id, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000;
  row.driver = intern(text_of(id, CL_DRIVER_VERSION));
  row.runtime = intern(platform_text(id, CL_PLATFORM_VERSION));
  write(row);
}

cl_device_id root_of(cl_device_id device) {
  for (int depth = 0; depth < 8; ++depth) {  // deeper partitions than any implementation allows
    auto parent = value_of<cl_device_id>(device, CL_DEVICE_PARENT_DEVICE);
    if (!parent) break;
    device = parent;
  }
  return device;
}

}  // namespace

ClDevice* find_device(cl_device_id device) {
  ClDevice* found = nullptr;
  if (devices().get(device, &found)) return found;
  cl_device_id root = root_of(device);
  if (root == device || !devices().get(root, &found)) {
    static std::atomic<uint16_t> next{kFirstClDevice};
    found = new ClDevice{root, next.fetch_add(1, std::memory_order_relaxed), nullptr, 0};
    found->clock = new DeviceClock(root, found->index);
    found->clock->read_timer();
    devices().put(root, found);
  }
  if (root != device) devices().put(device, found);
  return found;
}

void each_device(void (*visit)(ClDevice&)) {
  ClDevice* all[64];
  size_t count = 0;
  devices().each([&](ClDevice* device) {
    for (size_t i = 0; i < count; ++i) {
      if (all[i] == device) return;  // known by a sub-device's handle too
    }
    if (count < 64) all[count++] = device;
  });
  for (size_t i = 0; i < count; ++i) visit(*all[i]);
}

ClContext* note_context(cl_context context, cl_device_id device) {
  static std::atomic<uint32_t> next{kFirstClContext};
  auto* noted = new ClContext{next.fetch_add(1, std::memory_order_relaxed), find_device(device)->index, 0};
  contexts().put(context, noted);
  return noted;
}

ClContext* find_context(cl_context context) {
  ClContext* found = nullptr;
  contexts().get(context, &found);
  return found;
}

void announce_contexts(uint32_t recording_number) {
  each_device([](ClDevice& device) {
    if (device.announced == g_cl_recording) return;
    device.announced = g_cl_recording;
    write_device(device);
  });
  ClContext* fresh[256];
  for (size_t count = 256; count == 256;) {
    count = 0;
    contexts().each([&](ClContext* context) {
      if (context->announced == recording_number || count == 256) return;
      context->announced = recording_number;
      fresh[count++] = context;
    });
    for (size_t i = 0; i < count; ++i) {
      Context row{};
      row.context = fresh[i]->id;
      row.device = fresh[i]->device;
      row.time = now_ns();
      row.api = kBackendOpencl;
      write(row);
    }
  }
}

}  // namespace warpsight
