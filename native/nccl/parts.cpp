#include "nccl/parts.h"

#include <algorithm>
#include <atomic>

#include "runtime/runtime.h"

namespace warpsight::nccl {
namespace {

constexpr uint32_t kSlots = 16384;  // NCCL has at most 64 channels with 8 steps under way, per peer
constexpr uint32_t kProbes = 64;
constexpr uint32_t kSendFlag = 1, kReceiveFlag = 2;

// An open part. Its owner is the thread of NCCL that reports it.
struct Slot {
  std::atomic<uint32_t> used;  // claims the slot
  PartStart start;
  CollectivePart row;
  uint64_t state_since;
  int state;
};
Slot g_slots[kSlots];             // zeros: untouched pages cost nothing
std::atomic<uint32_t> g_next{0};  // where the next search begins

Slot* claim(uint64_t* handle) {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const uint32_t place = g_next.fetch_add(1, std::memory_order_relaxed) % kSlots;
    uint32_t unused = 0;
    if (!g_slots[place].used.compare_exchange_strong(unused, 1, std::memory_order_acquire)) continue;
    *handle = place + 1;
    return &g_slots[place];
  }
  return nullptr;
}

void add_wait(Slot* slot, uint64_t now) {
  const uint64_t waited = now - slot->state_since;
  if (slot->state == kSendGpuWait || slot->state == kReceiveGpuWait) slot->row.wait_device += waited;
  if (slot->state == kSendPeerWait) slot->row.wait_peer += waited;
  if (slot->state == kSendWait || slot->state == kReceiveWait || slot->state == kReceiveFlushWait)
    slot->row.wait_network += waited;
}

}  // namespace

uint64_t begin_part(const PartStart& start) {
  if (!recording()) return 0;
  uint64_t handle = 0;
  Slot* slot = claim(&handle);
  if (slot == nullptr) {
    report_loss("nccl", "parts of collectives: too many were open at once", 1, Severity::lost, 0, 0,
                CollectivePart::kKind);
    return 0;
  }
  slot->start = start;
  slot->state = -1;
  slot->row = {};
  slot->row.start = slot->state_since = now_ns();
  return handle;
}

void part_state(uint64_t handle, int state, const StateArguments* arguments) {
  if (handle == 0 || handle > kSlots) return;
  Slot& slot = g_slots[handle - 1];
  if (state == kKernelChannelStop) {
    if (arguments == nullptr || slot.start.timer == 0 || arguments->timer < slot.start.timer) return;
    slot.row.duration = arguments->timer - slot.start.timer;
    return;
  }
  const uint64_t now = now_ns();
  add_wait(&slot, now);
  slot.state = state;
  slot.state_since = now;
  const bool has_bytes =
      slot.start.kind == PartKind::proxy_step || state == kSendDone || state == kReceiveDone;
  if (has_bytes && arguments != nullptr && arguments->bytes != 0) slot.row.bytes = arguments->bytes;
}

void end_part(uint64_t handle) {
  if (handle == 0 || handle > kSlots) return;
  Slot& slot = g_slots[handle - 1];
  const uint64_t now = now_ns();
  add_wait(&slot, now);
  const PartStart& start = slot.start;
  CollectivePart row = slot.row;
  if (row.duration == 0) {
    row.duration = now - row.start;
  } else {
    // The GPU's clock only provides the length, because it differs from ours. The proxy thread sees start and
    // end some time after they happened, so the earlier of the two moments is more accurate.
    row.start = std::min(row.start, now - row.duration);
  }
  row.operation = start.operation;
  row.communicator = start.communicator;
  row.kind = static_cast<uint32_t>(start.kind);
  row.channel = start.channel;
  row.peer = start.peer;
  row.step = start.step;
  if (start.kind != PartKind::channel) row.flags = start.sends ? kSendFlag : kReceiveFlag;
  slot.used.store(0, std::memory_order_release);
  if (recording()) write(row);
}

PartStart part_start(uint64_t handle) {
  return handle == 0 || handle > kSlots ? PartStart{} : g_slots[handle - 1].start;
}

}  // namespace warpsight::nccl
