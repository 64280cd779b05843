#include "rocm/agents.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends.h"  // generated from warpsight_plugins/backends.py
#include "rocm/functions.h"
#include "runtime/runtime.h"

namespace warpsight::rocm {
namespace {

constexpr uint32_t kFirstQueue = 0x10000000;  // stream ids from here on are hardware queues
constexpr uint32_t kOwnHeaps = 2;             // heaps 1 and 2 are the device's own memory

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects the containers
struct Known {
  std::unordered_map<uint64_t, uint16_t> device_of_agent;  // constant after load_agents
  std::vector<Device> devices;                             // strings are added when rows are written
  std::vector<std::string> names, uuids, addresses;
  std::unordered_map<uint64_t, uint32_t> streams, queues;  // by handle
  uint32_t last_stream = 0;
  std::unordered_set<uint64_t> stream_rows;  // device and stream that have one
};
Known& known() {
  static Known* const value = new Known;  // never destroyed: callbacks outlive static destructors
  return *value;
}
// Makes threads drop the handle they looked up last. Released under the lock together with the change: a
// thread that reads the number before its lookup can only consider an id older than it is.
std::atomic<uint32_t> g_stream_changes{0};
bool g_devices_written = false;  // under the runtime's recorder lock

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
};

std::string pci_address(const Agent& agent) {
  char text[32];
  snprintf(text, sizeof text, "%04x:%02x:%02x.%x", agent.domain, agent.location >> 8 & 0xff,
           agent.location >> 3 & 31, agent.location & 7);
  return text;
}

// The kernel's own number of the device, which `warpsight devices` shows as well; "" if there is none.
std::string unique_id(const Agent& agent) {
  char path[96], line[128];
  snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%u/properties", agent.node);
  FILE* file = fopen(path, "re");
  unsigned long long id = 0;
  while (file != nullptr && id == 0 && fgets(line, sizeof line, file) != nullptr)
    sscanf(line, "unique_id %llu", &id);
  if (file != nullptr) fclose(file);
  if (id == 0) return "";
  char text[32];
  snprintf(text, sizeof text, "GPU-%llx", id);
  return text;
}

std::string uuid_of(const Agent& agent, const std::string& address) {
  std::string id = unique_id(agent);
  if (!id.empty()) return id;
  if (!WARPSIGHT_ROCM_HAS(agent, Agent, uuid)) return address;
  unsigned long long number = 0;  // the same one, in the first half
  memcpy(&number, agent.uuid, sizeof number);
  if (number == 0) return address;
  char text[32];
  snprintf(text, sizeof text, "GPU-%llx", number);
  return text;
}

std::string name_of(const Agent& agent) {
  const std::string architecture = agent.name != nullptr ? agent.name : "";
  const std::string product = agent.product_name != nullptr ? agent.product_name : "";
  if (product.empty() || product == architecture) return architecture;
  return architecture.empty() ? product : product + " (" + architecture + ")";
}

uint64_t memory_of(const Agent& agent) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; agent.banks != nullptr && i < agent.memory_banks; ++i) {
    if (agent.banks[i].heap != 0 && agent.banks[i].heap <= kOwnHeaps) bytes += agent.banks[i].bytes;
  }
  return bytes != 0 ? bytes : agent.local_bytes;
}

// Bytes a second of the fastest own bank: its clock twice, for double data rate, times its width. kHz in
// `clock`.
uint64_t bandwidth_of(const Agent& agent, uint32_t* clock) {
  uint64_t best = 0;
  for (uint32_t i = 0; agent.banks != nullptr && i < agent.memory_banks; ++i) {
    const MemoryBank& bank = agent.banks[i];
    if (bank.heap == 0 || bank.heap > kOwnHeaps) continue;
    *clock = std::max(*clock, bank.clock_mhz * 1000);
    best = std::max(best, uint64_t{2} * bank.clock_mhz * 1000000 * bank.width_bits / 8);
  }
  return best;
}

void take_device(const Agent& agent, uint16_t index) {
  Device row = {};
  row.device = index;
  row.platform = kBackendRocm;
  row.memory_bytes = memory_of(agent);
  row.memory_bandwidth = bandwidth_of(agent, &row.memory_clock_khz);
  row.multiprocessors = agent.compute_units;
  row.warp_size = agent.wave_size;
  row.shared_per_multiprocessor = agent.lds_kilobytes * 1024;
  row.threads_per_multiprocessor = agent.waves_per_simd * agent.simds_per_unit * agent.wave_size;
  row.clock_khz = agent.clock_mhz * 1000;
  const std::string address = pci_address(agent);
  known().devices.push_back(row);
  known().names.push_back(name_of(agent));
  known().uuids.push_back(uuid_of(agent, address));
  known().addresses.push_back(address);
}

Status take_agents(int version, const void** agents, size_t count, void* data) {
  auto* too_short = static_cast<size_t*>(data);
  if (version != kAgentVersion) return kSuccess;
  Guard guard;
  for (size_t i = 0; i < count; ++i) {
    const Agent& agent = *static_cast<const Agent*>(agents[i]);
    if (!WARPSIGHT_ROCM_HAS(agent, Agent, number_of_type)) {
      ++*too_short;
      continue;
    }
    if (agent.type != kGpu) continue;
    const auto index = static_cast<uint16_t>(known().devices.size());
    known().device_of_agent[agent.id] = index;
    take_device(agent, index);
  }
  return kSuccess;
}

}  // namespace

bool load_agents() {
  size_t too_short = 0;
  const Status status = sdk().query_agents != nullptr
                            ? sdk().query_agents(kAgentVersion, take_agents, kAgentBytes, &too_short)
                            : -1;
  if (status == kSuccess && too_short == 0) return true;
  report_loss("rocm", "rocprofiler-sdk does not describe this machine's GPUs: rows have no device", 1);
  return false;
}

uint16_t device_of(uint64_t agent) {
  Guard guard;
  const auto found = known().device_of_agent.find(agent);
  return found == known().device_of_agent.end() ? kNoDevice : found->second;
}

void write_devices() {
  if (g_devices_written) return;
  g_devices_written = true;
  for (size_t i = 0; i < known().devices.size(); ++i) {
    Device row = known().devices[i];
    row.name = intern(known().names[i]);
    row.uuid = intern(known().uuids[i]);
    row.pci = intern(known().addresses[i]);
    row.vendor = intern("AMD");
    row.driver = intern("amdgpu");
    row.runtime = intern(std::string("rocprofiler-sdk ") + version_text());
    write(row);
    Context context = {};
    context.context = context_of(static_cast<uint16_t>(row.device));
    context.device = row.device;
    context.time = now_ns();
    context.api = kBackendRocm;
    write(context);
  }
}

uint32_t stream_id(uint64_t handle) {
  if (handle == 0) return 0;
  struct Last {
    uint64_t handle;
    uint32_t id, changes;
  };
  static thread_local Last last = {};
  const uint32_t changes = g_stream_changes.load(std::memory_order_acquire);
  if (last.handle == handle && last.changes == changes) return last.id;
  Guard guard;
  const auto [place, fresh] = known().streams.try_emplace(handle, 0);
  if (fresh) place->second = ++known().last_stream;
  last = {handle, place->second, changes};
  return last.id;
}

void forget_stream(uint64_t handle) {
  Guard guard;
  known().streams.erase(handle);
  g_stream_changes.fetch_add(1, std::memory_order_release);
}

uint32_t queue_stream(uint64_t queue) {
  Guard guard;
  const auto next = kFirstQueue + static_cast<uint32_t>(known().queues.size());
  return known().queues.try_emplace(queue, next).first->second;
}

void note_stream(uint16_t device, uint32_t stream) {
  {
    Guard guard;
    if (!known().stream_rows.insert(uint64_t{device} << 32 | stream).second) return;
  }
  Stream row = {};
  row.context = context_of(device);
  row.stream = stream;
  row.device = device;
  row.time = now_ns();
  if (stream == 0) row.name = intern("default");
  if (stream >= kFirstQueue) row.name = intern("queue " + std::to_string(stream - kFirstQueue));
  write(row, OnFull::wait);
}

}  // namespace warpsight::rocm
