#include "stacks/definitions.h"

#include "ring/hot.h"
#include "ring/lock.h"
#include "runtime/runtime.h"
#include "stacks/flat_table.h"

namespace warpsight {

WARPSIGHT_HOT_DATA std::atomic<uint32_t> g_definition_generation{1};

namespace {

constexpr uint32_t kMostFrames = 1u << 20;
constexpr uint32_t kMostStacks = 1u << 20;

struct StackKey {
  uint32_t parent;
  uint32_t frame;
  uint64_t method_and_cut;
};

SpinLock
    g_lock;  // protects the two tables and the counters; held while a row is written, never during a callback
FlatTable<FrameKey> g_frames;
FlatTable<StackKey> g_stacks;
uint32_t g_next_frame = 1;
uint32_t g_next_stack = 1;
bool g_full_reported = false;  // atomic

void report_full(const char* what) {
  if (__atomic_exchange_n(&g_full_reported, true, __ATOMIC_RELAXED)) return;
  report_loss("stacks", what);
}

}  // namespace

uint32_t define_frame(const FrameKey& key) {
  {
    LockGuard guard(g_lock);
    if (const uint32_t known = g_frames.find(key)) return known;
    if (g_frames.size() < kMostFrames) {
      const Frame row = {
          g_next_frame++, key.function, key.file, key.line, key.address, static_cast<uint16_t>(key.kind), 0,
          key.build_id};
      return write(row) && g_frames.add(key, row.id) ? row.id : 0;
    }
  }
  report_full("more than 1048576 distinct frames; stacks with further ones are not recorded");
  return 0;
}

uint32_t define_stack(uint32_t parent, uint32_t frame, uint8_t method, bool cut) {
  const StackKey key = {parent, frame, static_cast<uint64_t>(method) | static_cast<uint64_t>(cut) << 8};
  {
    LockGuard guard(g_lock);
    if (const uint32_t known = g_stacks.find(key)) return known;
    if (g_stacks.size() < kMostStacks) {
      const Stack row = {g_next_stack++, parent, frame, method, static_cast<uint8_t>(cut), 0};
      return write(row) && g_stacks.add(key, row.id) ? row.id : 0;
    }
  }
  report_full("more than 1048576 distinct stacks; further ones are not recorded");
  return 0;
}

void forget_stack_definitions() {
  g_lock.reset();
  g_frames.abandon();
  g_stacks.abandon();
  g_next_frame = g_next_stack = 1;
  g_full_reported = false;
  g_definition_generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace warpsight
