#include "maca/devices.h"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "cuda/functions.h"
#include "maca/clock.h"
#include "maca/find_mcpti.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint32_t kMostDevices = 64;
std::atomic<uint64_t> g_devices{0};  // bit by index: has a row; who sets a bit writes the row

// Names and addresses only: the numbers of device attributes are not published, and a guess would be a wrong
// figure in every report.
struct Runtime {
  int (*device_name)(char*, int, int);
  int (*pci_bus_id)(char*, int, int);
  int (*driver_version)(int*);
  int (*runtime_version)(int*);
};

template <class T>
void find(void* library, const char* name, T* function) {
  *function = library != nullptr ? reinterpret_cast<T>(dlsym(library, name)) : nullptr;
}

const Runtime& runtime_functions() {
  static const Runtime value = [] {
    Runtime r = {};
    void* library = loaded_maca_runtime();
    find(library, "mcDeviceGetName", &r.device_name);
    find(library, "mcDeviceGetPCIBusId", &r.pci_bus_id);
    find(library, "mcDriverGetVersion", &r.driver_version);
    find(library, "mcRuntimeGetVersion", &r.runtime_version);
    return r;
  }();
  return value;
}

std::string version(int (*ask)(int*)) {
  int value = 0;
  return ask != nullptr && ask(&value) == 0 ? "MACA " + std::to_string(value) : "";
}

uint64_t realtime_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void write_maca_device(uint32_t index) {
  if (index >= kMostDevices) return;
  const uint64_t bit = uint64_t{1} << index;
  if ((g_devices.fetch_or(bit) & bit) != 0) return;
  const Runtime& r = runtime_functions();
  Device row = {};
  char name[256] = "", pci[64] = "";
  const int device = static_cast<int>(index);
  row.device = index;
  const bool named = r.device_name != nullptr && r.device_name(name, sizeof name, device) == 0 && *name != 0;
  row.name = intern(named ? name : "MetaX GPU");
  row.vendor = intern("MetaX");
  if (r.pci_bus_id != nullptr && r.pci_bus_id(pci, sizeof pci, device) == 0 && *pci != 0) {
    row.pci = intern(pci);
    row.uuid = intern(pci);  // there is no published function for MACA's own id
  }
  row.platform = kBackendMaca;
  row.driver = intern(version(r.driver_version));
  row.runtime = intern("MCPTI " + std::to_string(cupti().version));
  write(row, OnFull::wait);
}

void write_maca_clocks() {
  ClockFit fit;
  if (!copy_clock_fit(&fit)) return;
  const uint64_t devices = g_devices.load();
  for (uint32_t index = 0; index < kMostDevices; ++index) {
    if ((devices >> index & 1) == 0) continue;
    Clock row = {};
    row.device_time = fit.last().theirs;
    row.monotonic = fit.host(row.device_time);
    row.realtime = row.monotonic + (realtime_ns() - now_ns());
    row.device = index;
    row.uncertainty = static_cast<uint32_t>(std::min<uint64_t>(fit.uncertainty(), UINT32_MAX));
    write(row);
  }
}

}  // namespace warpsight
