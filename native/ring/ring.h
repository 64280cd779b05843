// Rings: how any thread of the traced process hands rows to the drainer. The structs, and the files that the
// drainer writes, are described in src/warpsight/capture/segments/layout.py.
//
// A thread owns one ring per kind of event, claimed from the process's arena at its first row of that kind.
// Writing is a bounds check, a copy and one release store; nothing is allocated or locked after the claim.
// Definition kinds are rare and interned, so all threads share one ring per definition kind, under a lock.
//
// The arena is a file in a tmpfs with at least 256 MiB free, which outlives the process and its launcher, or
// else a memfd sealed against resizing. Blocks of a file get their memory (MADV_POPULATE_WRITE) before use,
// because a store to a page of a full tmpfs would kill the process; `ready` counts the blocks that have it.
// The launcher writes control, flush_request, drainer, heartbeat, next_segment and lost_no_ring_reported of
// the arena header; the process writes the rest.
//
// Producer. It claims a descriptor: a recycled one of the same length by swapping `state` from 0 to 3, else
// the next unused one. It prepares block 0, adds 1 to `claims` and stores `state` 1. A row is copied behind
// the last one, then published by the release store of `committed`. When a row does not fit, the block is
// sealed (`flags` 1, then `produced` + 1). Block s is at index first_block + s % block_count and may begin
// when s - drained < block_count; its header gets an invalid sequence first and the right one last. Without
// room WARPSIGHT_ON_FULL decides:
//   drop-newest  the row is dropped and counted in `lost`
//   drop-oldest  the producer advances `drained` by one (compare-and-swap) and counts that block's rows
//   wait         the thread sleeps up to 2 s while the drainer's heartbeat is younger than 1 s, then drops
// A thread that ends seals its blocks and stores `state` 2. Rings get shorter, down to 2 blocks, as the arena
// fills; rows without a ring are counted in `lost_no_ring`.
//
// Drainer, on each visit:
//   1. store `drainer` and `heartbeat`
//   2. note `produced` and the open block's `committed` of every event ring, then of every definition ring
//      from the highest kind down (definitions refer to lower kinds only; again if `claims` changed)
//   3. copy the definition rings up to their notes, open blocks included
//   4. copy the event rings up to their notes: sealed blocks always, open ones at checkpoints and the end
//   5. write Loss rows, then store what they cover in `lost_reported` and `unwritten_reported`
//   6. store `state` 0 in descriptors with `state` 2 that are drained
// A block is written to the file, rows before header, and then taken by a compare-and-swap of `drained`.
// Whoever moves `drained` past a block decides its fate, so each row is either in a segment or counted. All
// progress is in the arena: after a drainer dies, its successor may write a block again, which readers detect
// by writer and sequence. A block that cannot be written stays until the ring is half full, then is counted
// in `unwritten` and dropped. The drainer trusts nothing in the arena: it skips and counts descriptors and
// blocks whose numbers make no sense.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "layout.h"  // generated from src/warpsight/capture/segments/layout.py

namespace warpsight {

// What happens to a row if its ring is full: application threads follow the process's policy (FullPolicy);
// our own threads wait (for a limited time) for the drainer.
enum class OnFull { drop, wait };

// WARPSIGHT_ON_FULL: what `OnFull::drop` means in this process.
enum class FullPolicy { drop_newest, drop_oldest, wait };
void set_full_policy(FullPolicy policy);

// Called instead of sleeping when the calling thread waits for room: a thread that is the drainer itself must
// drain.
void set_wait_handler(void (*handler)());

// Creates the arena of this process, or returns the existing one; nullptr with errno set on failure. The
// arena is a file in `folder` if that is a tmpfs with room, and then outlives this process and its drainer;
// otherwise it is a sparse memfd. Do not call this in forked children before `forget_arena`.
ArenaHeader* create_arena(const char* folder, uint32_t most_blocks = kBlockCapacity);
ArenaHeader* arena();      // nullptr before create_arena and in a forked child
int arena_fd();            // -1 likewise
void remove_arena_file();  // its rows are safe elsewhere, or no longer needed
uint32_t arena_blocks();   // blocks of this arena; fewer than kBlockCapacity under RLIMIT_FSIZE or RLIMIT_AS
void forget_arena();       // after fork, in the child: drops every reference, writes nothing

// For a second recording in one process: leaves the arena to its drainer; the next create_arena makes a new
// one in which every definition written so far (except processes and threads) appears again under the same
// id.
void retire_arena();

// Stamps rows written from now on with this recorder session (the high half of correlation ids).
void set_session(uint32_t session);

// Appends one row to the calling thread's ring of that kind (the shared ring of a definition kind). `row` has
// `row_bytes` bytes. False when it was dropped (counted in the ring's descriptor or, without a ring, in the
// arena header). A definition that was dropped is not known to readers: do not cache its id.
bool write_row(uint16_t kind, const void* row, uint32_t row_bytes, OnFull on_full);

// Rows written and dropped in this arena so far.
struct RingStatistics {
  uint64_t written;
  uint64_t dropped;
};
RingStatistics ring_statistics();

// Touches the pages of blocks that writers will reach next, so that they do not pay for the page faults. Our
// thread.
void prefault_rings();

// Publishes everything written; closes the calling thread's rings (also run at thread exit).
void close_thread_rings();

// Ids of definitions, written to the arena the first time they are seen. Thread-safe; 0 for an empty string,
// when there is no arena or when the definition had to be dropped. Strings longer than kMaxStringBytes are
// cut.
constexpr uint32_t kMaxStringBytes = 32768;
// String ids below this are sentences of the drainer's own loss rows.
constexpr uint32_t kFirstStringId = 32;
uint32_t intern(std::string_view text);
// For C strings at addresses that usually stay (kernel names, API names): a per-thread cache by pointer that
// compares the whole text before it believes the pointer.
uint32_t intern_c(const char* text);
// For texts of events, of which a program may make new ones for ever: beyond the limit (0: none, the default)
// they are written for one row each, under ids from kFirstOnceString on, and not remembered.
uint32_t intern_event(std::string_view text);
uint32_t intern_c_event(const char* text);
void set_event_text_limit(uint32_t texts);
uint32_t intern_shape(const Shape& shape);  // shape.id is ignored

struct ArenaMap;  // arena.h

// Where a thread's next row of one kind goes. `epoch` is the value of g_epoch the open block was begun under.
struct Cursor {
  char* position;
  char* end;
  BlockHeader* block;
  RingDescriptor* ring;
  const ArenaMap* map;  // the arena of `ring`
  uint64_t epoch;
  uint64_t gave_up_at;  // `drained` when a wait for room timed out, plus 1: no second wait until it moves
};
constexpr uint32_t kKinds = 48;
extern __thread Cursor* t_cursors;  // kKinds cursors of this thread, nullptr before its first row
extern uint64_t g_epoch;  // arena generation << 32 | session (atomic); a change ends every open block
// Ids of definitions that a caller keeps are good for as long as this stays the same: a forked child numbers
// anew.
inline uint32_t definitions_generation() {
  return static_cast<uint32_t>(__atomic_load_n(&g_epoch, __ATOMIC_RELAXED) >> 32);
}

// `cursors`: t_cursors of the calling thread, for callers that have it at hand.
template <class Row>
inline bool write(const Row& row, OnFull on_full, Cursor* cursors) {
  static_assert(Row::kKind < kKinds, "kKinds is too small");
  if (!is_definition(Row::kKind) && __builtin_expect(cursors != nullptr, 1)) {
    Cursor& cursor = cursors[Row::kKind];
    if (__builtin_expect(static_cast<size_t>(cursor.end - cursor.position) >= sizeof(Row) &&
                             cursor.epoch == __atomic_load_n(&g_epoch, __ATOMIC_RELAXED),
                         1)) {
      memcpy(cursor.position, &row, sizeof(Row));
      cursor.position += sizeof(Row);
      __builtin_prefetch(cursor.position + 512, 1);  // the line some rows on: rings are larger than the cache
      const char* payload = reinterpret_cast<const char*>(cursor.block + 1);
      __atomic_store_n(&cursor.block->committed, static_cast<uint32_t>(cursor.position - payload),
                       __ATOMIC_RELEASE);
      return true;
    }
  }
  return write_row(Row::kKind, &row, sizeof(Row), on_full);
}

template <class Row>
inline bool write(const Row& row, OnFull on_full = OnFull::drop) {
  return write(row, on_full, t_cursors);
}

}  // namespace warpsight
