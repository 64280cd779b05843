#include "cuda/buffers.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "cuda/functions.h"
#include "runtime/runtime.h"
#include "runtime/timed_wait.h"

namespace warpsight {
namespace {

constexpr uint32_t kMostBuffers = 4096;
constexpr uint32_t kNone = 0xffffffff;

enum class State : uint8_t { idle, lent, lent_discard, completed, abandoned };

struct Slot {
  Buffer buffer;
  std::atomic<uint32_t> next_free;  // index of the next free slot
  std::atomic<State> state;
};

Slot g_slots[kMostBuffers];
std::atomic<uint32_t> g_slot_count{0};  // slots ever made; a slot's memory is published by the store after it
std::atomic<uint64_t> g_free{
    kNone};  // head of the free list: index and, against ABA, a change count above it
std::atomic<uint32_t> g_abandoned{0};  // slots that CUPTI kept across a detach
std::atomic<Buffer*> g_completed{
    nullptr};  // stack of completed buffers: many pushers, one taker of the whole
std::atomic<uint64_t> g_requested{0}, g_completions{0}, g_refused{0}, g_foreign{0},
    g_discarded{0};                             // statistics
size_t g_buffer_bytes = 0, g_pool_buffers = 0;  // set before the callbacks are registered
bool g_discard_when_full = false;               // likewise
sem_t g_wake;                                   // posted once per completed buffer
bool g_wake_ready = false;                      // set before the worker starts

void push_free(uint32_t index) {
  uint64_t head = g_free.load(std::memory_order_relaxed);
  uint64_t wanted;
  do {
    g_slots[index].next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    wanted = ((head >> 32) + 1) << 32 | index;
  } while (!g_free.compare_exchange_weak(head, wanted, std::memory_order_release, std::memory_order_relaxed));
}

uint32_t pop_free() {
  uint64_t head = g_free.load(std::memory_order_acquire);
  uint64_t wanted;
  do {
    if (static_cast<uint32_t>(head) == kNone) return kNone;
    const uint32_t next = g_slots[static_cast<uint32_t>(head)].next_free.load(std::memory_order_relaxed);
    wanted = ((head >> 32) + 1) << 32 | next;
  } while (!g_free.compare_exchange_weak(head, wanted, std::memory_order_acquire, std::memory_order_acquire));
  return static_cast<uint32_t>(head);
}

// A new slot with zeroed memory, or kNone at the limit or without memory.
uint32_t grow(bool beyond_limit) {
  const uint32_t limit =
      beyond_limit ? kMostBuffers : static_cast<uint32_t>(g_pool_buffers) + g_abandoned.load();
  uint32_t count = g_slot_count.load(std::memory_order_relaxed);
  do {
    if (count >= limit || count >= kMostBuffers) return kNone;
  } while (!g_slot_count.compare_exchange_weak(count, count + 1, std::memory_order_relaxed));
  Slot& slot = g_slots[count];
  slot.state.store(State::abandoned, std::memory_order_relaxed);
  auto* memory = static_cast<uint8_t*>(calloc(1, g_buffer_bytes));
  if (memory == nullptr) return kNone;
  slot.buffer.index = count;
  __atomic_store_n(&slot.buffer.memory, memory, __ATOMIC_RELEASE);
  return count;
}

Slot* slot_of(const uint8_t* memory) {
  const uint32_t count = g_slot_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (__atomic_load_n(&g_slots[i].buffer.memory, __ATOMIC_ACQUIRE) == memory) return &g_slots[i];
  }
  return nullptr;
}

void discard(Slot* slot, size_t valid) {
  uint64_t records = 0;
  CUpti_Activity* record = nullptr;
  while (cupti().cuptiActivityGetNextRecord(slot->buffer.memory, valid, &record) == CUPTI_SUCCESS) ++records;
  g_discarded.fetch_add(records, std::memory_order_relaxed);
  recycle(&slot->buffer);
}

Buffer* reversed(Buffer* list) {
  Buffer* oldest_first = nullptr;
  while (list != nullptr) {
    Buffer* next = list->next;
    list->next = oldest_first;
    oldest_first = list;
    list = next;
  }
  return oldest_first;
}

}  // namespace

void configure_buffers(size_t buffer_bytes, size_t pool_bytes, bool discard_when_full) {
  if (g_buffer_bytes == 0) {
    g_buffer_bytes = buffer_bytes;  // never changes afterwards: all buffers of the process have one size
  }
  g_pool_buffers = pool_bytes / g_buffer_bytes;
  if (g_pool_buffers == 0) g_pool_buffers = 1;
  g_discard_when_full = discard_when_full;
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  g_requested.fetch_add(1, std::memory_order_relaxed);
  *buffer = nullptr;
  *size = 0;
  *max_records = kRecordsPerBuffer;
  State state = State::lent;
  uint32_t index = pop_free();
  if (index == kNone) index = grow(false);
  if (index == kNone) {
    g_refused.fetch_add(1, std::memory_order_relaxed);
    if (!g_discard_when_full) return;  // CUPTI counts the records it drops
    index = grow(true);
    state = State::lent_discard;
    if (index == kNone) return;
  }
  g_slots[index].state.store(state, std::memory_order_relaxed);
  *buffer = g_slots[index].buffer.memory;
  *size = g_buffer_bytes;
}

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* memory, size_t, size_t valid) {
  g_completions.fetch_add(1, std::memory_order_relaxed);
  Slot* slot = slot_of(memory);
  if (slot == nullptr) {
    g_foreign.fetch_add(1, std::memory_order_relaxed);  // another client's buffer: neither read nor freed
    return;
  }
  if (slot->state.exchange(State::completed, std::memory_order_relaxed) == State::lent_discard) {
    return discard(slot, valid);
  }
  Buffer* buffer = &slot->buffer;
  buffer->valid = valid;
  buffer->context = context;
  buffer->stream = stream;
  Buffer* head = g_completed.load(std::memory_order_relaxed);
  do {
    buffer->next = head;
  } while (
      !g_completed.compare_exchange_weak(head, buffer, std::memory_order_release, std::memory_order_relaxed));
  wake_worker();
}

Buffer* take_completed() { return reversed(g_completed.exchange(nullptr, std::memory_order_acquire)); }

void wait_for_completed(uint32_t milliseconds) { wait_within(&g_wake, milliseconds); }

void prepare_wake() {
  if (!g_wake_ready) g_wake_ready = sem_init(&g_wake, 0, 0) == 0;
}

void wake_worker() {
  if (g_wake_ready) sem_post(&g_wake);
}

void recycle(Buffer* buffer) {
  memset(buffer->memory, 0, g_buffer_bytes);
  g_slots[buffer->index].state.store(State::idle, std::memory_order_relaxed);
  push_free(buffer->index);
}

uint32_t abandon_lent() {
  uint32_t given_up = 0;
  const uint32_t count = g_slot_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    State state = g_slots[i].state.load(std::memory_order_relaxed);
    if (state != State::lent && state != State::lent_discard) continue;
    if (g_slots[i].state.compare_exchange_strong(state, State::abandoned)) ++given_up;
  }
  g_abandoned.fetch_add(given_up);
  return given_up;
}

BufferCounters buffer_counters() {
  return {g_requested.load(), g_completions.load(), g_refused.load(), g_foreign.load(), g_discarded.load()};
}

}  // namespace warpsight
