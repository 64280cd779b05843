// Activity buffers: handed to CUPTI zeroed, returned full, recycled. The two callbacks may run on any thread,
// including the program's: they take no lock, and allocate only until the pool has grown to the program's
// needs.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace warpsight {

// Records CUPTI may put into one buffer; a small number, because a buffer comes back only when all of it is
// complete.
constexpr size_t kRecordsPerBuffer = 512;

struct Buffer {
  uint8_t* memory;  // from calloc: a foreign client that frees a buffer of ours by mistake frees a real block
  size_t valid;     // bytes CUPTI has written
  CUcontext context;
  uint32_t stream;
  uint32_t index;
  Buffer* next;  // in the list of completed buffers
};

struct BufferCounters {
  uint64_t requested, completed, refused, foreign, discarded_records;
};

// Sets the size of a buffer and of the whole pool; called before the callbacks are registered.
// `discard_when_full`: this CUPTI cannot be refused a buffer, so past the limit it gets some whose records
// are counted and thrown away.
void configure_buffers(size_t buffer_bytes, size_t pool_bytes, bool discard_when_full);

// CUPTI's two callbacks.
void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records);
void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                               size_t valid);

// All buffers completed so far, oldest first; nullptr if there are none.
Buffer* take_completed();
// Blocks until a buffer is completed, wake_worker() is called or `milliseconds` pass.
void wait_for_completed(uint32_t milliseconds);
void wake_worker();
// Once, before the worker waits for the first time.
void prepare_wake();

// Zeroes a buffer and makes it available again.
void recycle(Buffer* buffer);

// After a detach: buffers still lent are given up (CUPTI never returns them), so the pool may grow in their
// place. Returns how many.
uint32_t abandon_lent();

BufferCounters buffer_counters();

}  // namespace warpsight
