// Claiming, filling, sealing and closing rings: the producer's side.
#include "ring/ring.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "ring/arena.h"
#include "ring/thread_hook.h"

namespace warpsight {

__thread Cursor* t_cursors = nullptr;

namespace {

constexpr uint64_t kWaitLimitNs = 2000000000;  // longest wait for the drainer
constexpr uint64_t kDefinitionWaitNs =
    20000000;  // the same for an application thread that defines something new
constexpr uint64_t kHeartbeatLimitNs = 1000000000;  // a drainer silent for longer is not waited for
constexpr uint32_t kFewestRingBlocks = 2;

enum RingState : uint32_t { kFree = 0, kOpen = 1, kClosed = 2, kClaiming = 3 };

struct SharedRing {
  SpinLock lock;  // protects the cursor and the ring behind it
  Cursor cursor;
  uint64_t gave_up_at;  // atomic; as in Cursor, but waiting is done without the lock
};
SharedRing g_definition_rings[kKinds];

FullPolicy g_full_policy = FullPolicy::drop_newest;
__thread void (*t_wait_handler)() = nullptr;

uint32_t g_writers = 0;        // atomic: last number given to a ring
uint32_t g_closed_rings = 0;   // atomic: rings closed and not yet claimed again; 0 spares the search
uint64_t g_rows_sealed = 0;    // atomic: rows in blocks that are complete
uint64_t g_lost_recycled = 0;  // atomic: rows lost in rings whose descriptor was claimed again

void (*g_thread_hook)() = nullptr;  // atomic

pthread_key_t g_exit_key;
pthread_once_t g_exit_once = PTHREAD_ONCE_INIT;

template <class T>
T load(const T* value, int order = __ATOMIC_ACQUIRE) {
  return __atomic_load_n(value, order);
}
template <class T>
void store(T* target, T value, int order = __ATOMIC_RELEASE) {
  __atomic_store_n(target, value, order);
}
template <class T>
T add(T* target, T value) {
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

uint32_t own_thread_id() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

void close_rings(Cursor* cursors);

void on_thread_exit(void* cursors) {
  if (cursors != t_cursors) return;  // a forked child's leftover
  t_cursors = nullptr;
  close_rings(static_cast<Cursor*>(cursors));
  free(cursors);
}

void make_exit_key() { pthread_key_create(&g_exit_key, on_thread_exit); }

Cursor* thread_cursors() {
  if (t_cursors) return t_cursors;
  pthread_once(&g_exit_once, make_exit_key);
  ThreadState* state = static_cast<ThreadState*>(calloc(1, sizeof(ThreadState)));
  if (!state) return nullptr;
  pthread_setspecific(g_exit_key, state);
  t_cursors = state->cursors;
  if (void (*hook)() = load(&g_thread_hook)) hook();
  return t_cursors;
}

// Rings get smaller as the arena fills up, so that thousands of threads can have one.
uint32_t wanted_blocks(const ArenaMap& map, uint16_t kind) {
  const uint64_t used = load(&map.header->block_count, __ATOMIC_RELAXED);
  uint32_t blocks = ring_blocks(kind);
  if (used * 4 > map.capacity * 3ull) {
    blocks /= 16;
  } else if (used * 2 > map.capacity) {
    blocks /= 4;
  }
  const uint32_t most = map.capacity / 64;
  if (blocks > most) blocks = most;
  return blocks < kFewestRingBlocks ? kFewestRingBlocks : blocks;
}

// Takes `count` from a counter in the arena header that must not pass `limit`; ~0 when there is not enough
// left.
uint32_t take(uint32_t* counter, uint32_t count, uint64_t limit) {
  uint32_t have = load(counter, __ATOMIC_RELAXED);
  do {
    if (uint64_t{have} + count > limit) return ~0u;
  } while (
      !__atomic_compare_exchange_n(counter, &have, have + count, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return have;
}

// A ring released by the drainer, with `blocks` blocks (0: any number); nullptr if there is none.
RingDescriptor* recycled_ring(const ArenaMap& map, uint32_t blocks) {
  if (load(&g_closed_rings, __ATOMIC_RELAXED) == 0) return nullptr;
  const uint32_t count = load(&map.header->ring_count, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < count; ++i) {
    RingDescriptor* ring = &map.rings[i];
    if (load(&ring->state, __ATOMIC_RELAXED) != kFree) continue;
    const uint32_t have = load(&ring->block_count);
    if (blocks ? have != blocks : have < kFewestRingBlocks) continue;
    uint32_t expected = kFree;
    if (__atomic_compare_exchange_n(&ring->state, &expected, uint32_t{kClaiming}, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
      __atomic_fetch_sub(&g_closed_rings, 1u, __ATOMIC_RELAXED);
      add(&g_lost_recycled, ring->lost);
      return ring;
    }
  }
  return nullptr;
}

RingDescriptor* fresh_ring(const ArenaMap& map, uint32_t blocks) {
  ArenaHeader* header = map.header;
  if (load(&header->ring_count, __ATOMIC_RELAXED) >= kRingCapacity) return nullptr;
  const uint32_t first = take(&header->block_count, blocks, map.capacity);
  if (first == ~0u) return nullptr;
  const uint32_t index = take(&header->ring_count, 1, kRingCapacity);
  if (index == ~0u) return nullptr;  // lost a race for the very last descriptor
  RingDescriptor* ring = &map.rings[index];
  // New descriptors are zero, so free, but cannot be claimed without blocks. Whoever sees the blocks must
  // also see that this one is claimed.
  store(&ring->state, uint32_t{kClaiming}, __ATOMIC_RELAXED);
  ring->first_block = first;
  store(&ring->block_count, blocks);
  return ring;
}

BlockHeader* block_at(const ArenaMap& map, const RingDescriptor* ring, uint64_t sequence) {
  const uint32_t count = ring->block_count;  // 0 in the private memory of a retired arena
  const uint64_t index = ring->first_block + (count ? sequence % count : 0);
  return reinterpret_cast<BlockHeader*>(map.blocks + index * kBlockBytes);
}

// Makes sure that block `sequence` has memory; the drainer touches only blocks that do.
bool make_ready(const ArenaMap& map, RingDescriptor* ring, uint64_t sequence) {
  const uint64_t index = ring->block_count ? sequence % ring->block_count : 0;
  if (index < ring->ready) return true;
  if (map.bounded && !populate(block_at(map, ring, sequence), kBlockBytes)) return false;
  store(&ring->ready, map.bounded ? static_cast<uint32_t>(index + 1) : ring->block_count);
  return true;
}

// Begins block `sequence` of the ring. The drainer takes a block only when its sequence is the expected one,
// so that is stored last; before it, the block is invalid.
void begin_block(Cursor* cursor, uint64_t sequence, uint64_t epoch) {
  RingDescriptor* ring = cursor->ring;
  const ArenaMap& map = *cursor->map;
  BlockHeader* block = block_at(map, ring, sequence);
  store(&block->sequence, ~uint64_t{0}, __ATOMIC_RELAXED);
  store(&block->committed, uint32_t{0});
  __atomic_thread_fence(__ATOMIC_RELEASE);
  block->magic = kBlockMagic;
  block->version = kLayoutVersion;
  block->kind = ring->kind;
  block->pid = map.header->pid;
  block->thread = ring->thread;
  block->arena = map.header->arena;
  block->lost = ring->lost;
  block->writer = ring->writer;
  block->session = static_cast<uint32_t>(epoch);
  block->row_bytes = ring->row_bytes;
  block->flags = 0;
  block->crc = 0;
  store(&block->sequence, sequence);
  cursor->block = block;
  cursor->position = reinterpret_cast<char*>(block + 1);
  cursor->end = reinterpret_cast<char*>(block) + kBlockBytes;
  cursor->epoch = epoch;
}

RingDescriptor* claim(const ArenaMap& map, uint16_t kind, uint32_t row_bytes, bool shared) {
  const uint32_t blocks = wanted_blocks(map, kind);
  RingDescriptor* ring = recycled_ring(map, blocks);
  for (uint32_t count = blocks; !ring && count >= kFewestRingBlocks; count /= 2)
    ring = fresh_ring(map, count);
  if (!ring) ring = recycled_ring(map, 0);
  if (!ring) return nullptr;
  ring->kind = kind;
  ring->row_bytes = static_cast<uint16_t>(row_bytes);
  store(&ring->writer, add(&g_writers, 1u) + 1, __ATOMIC_RELAXED);  // our thread looks at rings of others
  ring->thread = shared ? 0 : own_thread_id();
  ring->lost = ring->lost_first = ring->lost_last = ring->lost_reported = 0;
  ring->unwritten = ring->unwritten_block = ring->unwritten_reported = 0;
  store(&ring->produced, uint64_t{0}, __ATOMIC_RELAXED);
  store(&ring->drained, uint64_t{0}, __ATOMIC_RELAXED);
  return ring;
}

void publish_claim(const ArenaMap& map, RingDescriptor* ring) {
  __atomic_fetch_add(&map.header->claims, 1u, __ATOMIC_RELEASE);
  store(&ring->state, uint32_t{kOpen});
}

uint64_t rows_in(const BlockHeader* block) {
  const uint32_t bytes = block->committed;
  return block->row_bytes ? bytes / block->row_bytes : 0;
}

void seal(Cursor* cursor) {
  BlockHeader* block = cursor->block;
  if (!block) return;
  add(&g_rows_sealed, rows_in(block));
  store(&block->flags, uint32_t{1}, __ATOMIC_RELAXED);
  store(&cursor->ring->produced, cursor->ring->produced + 1);
  cursor->block = nullptr;
  cursor->position = cursor->end = nullptr;
}

void close_ring(Cursor* cursor) {
  if (!cursor->ring) return;
  if (cursor->block && cursor->block->committed) seal(cursor);
  store(&cursor->ring->state, uint32_t{kClosed});
  add(&g_closed_rings, 1u);
  *cursor = Cursor{};
}

void close_rings(Cursor* cursors) {
  if (!arena()) return;
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    if (cursors[kind].epoch >> 32 == load(&g_epoch) >> 32) close_ring(&cursors[kind]);
  }
}

bool has_room(const RingDescriptor* ring) {
  return ring->produced - load(&ring->drained) < ring->block_count;
}

// Drops the oldest block that the drainer has not taken. Only the side that moves `drained` past a block
// handles it, so a row is either drained or counted here, never both.
void drop_oldest(const ArenaMap& map, RingDescriptor* ring) {
  uint64_t drained = load(&ring->drained);
  if (ring->produced - drained < ring->block_count) return;
  const uint64_t rows = rows_in(block_at(map, ring, drained));
  if (__atomic_compare_exchange_n(&ring->drained, &drained, drained + 1, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED)) {
    const uint64_t now = monotonic_ns();
    if (ring->lost == 0) ring->lost_first = now;
    ring->lost_last = now;
    store(&ring->lost, ring->lost + rows);
  }
}

bool drainer_alive() {
  const ArenaHeader* header = arena();
  if (!header || load(&header->drainer) == 0) return false;
  const uint64_t heartbeat = load(&header->heartbeat, __ATOMIC_RELAXED);
  return monotonic_ns() < heartbeat + kHeartbeatLimitNs;
}

// Waits until the ring has room, at most `limit_ns`, and not again until the drainer has moved since it gave
// up.
void wait_for_room(RingDescriptor* ring, uint64_t* gave_up_at, uint64_t limit_ns) {
  if (load(gave_up_at, __ATOMIC_RELAXED) == load(&ring->drained) + 1) return;
  const uint64_t deadline = monotonic_ns() + limit_ns;
  while (!has_room(ring) && (t_wait_handler || drainer_alive()) && monotonic_ns() < deadline) {
    if (t_wait_handler) t_wait_handler();
    const timespec pause = {0, 200000};
    if (!has_room(ring)) nanosleep(&pause, nullptr);
  }
  store(gave_up_at, has_room(ring) ? uint64_t{0} : load(&ring->drained) + 1, __ATOMIC_RELAXED);
}

void count_lost(RingDescriptor* ring) {
  const uint64_t now = monotonic_ns();
  if (ring->lost == 0) ring->lost_first = now;
  ring->lost_last = now;
  store(&ring->lost, ring->lost + 1);
}

bool claim_into(Cursor* cursor, uint16_t kind, uint32_t row_bytes, uint64_t epoch, bool shared) {
  const ArenaMap* map = arena_map();
  if (!map) return false;
  RingDescriptor* ring = claim(*map, kind, row_bytes, shared);
  if (ring && !make_ready(*map, ring, 0)) {
    store(&ring->state, uint32_t{kFree});
    add(&g_closed_rings, 1u);
    ring = nullptr;
  }
  if (!ring) {
    add(&map->header->lost_no_ring, uint64_t{1});
    *cursor = Cursor{};
    return false;
  }
  *cursor = Cursor{};
  cursor->ring = ring;
  cursor->map = map;
  begin_block(cursor, 0, epoch);
  publish_claim(*map, ring);
  return true;
}

// One row to append: `text` follows the fixed part of a string row, padded with zeros to a multiple of 8.
struct Piece {
  uint16_t kind;
  bool shared;
  uint32_t row_bytes;
  const void* row;
  std::string_view text;

  uint32_t bytes() const { return row_bytes + ((static_cast<uint32_t>(text.size()) + 7) & ~7u); }
};

bool fits(const Cursor& cursor, const Piece& piece) {
  return static_cast<size_t>(cursor.end - cursor.position) >= piece.bytes();
}

// Begins the ring's next block if the policy finds room for one; false (and nothing counted) when it does
// not.
bool next_block(Cursor* cursor, uint64_t epoch, FullPolicy policy) {
  RingDescriptor* ring = cursor->ring;
  if (!has_room(ring)) {
    if (policy == FullPolicy::wait) wait_for_room(ring, &cursor->gave_up_at, kWaitLimitNs);
    if (policy == FullPolicy::drop_oldest) drop_oldest(*cursor->map, ring);
    if (!has_room(ring)) return false;
  }
  if (!make_ready(*cursor->map, ring, ring->produced)) return false;
  begin_block(cursor, ring->produced, epoch);
  return true;
}

// Points `cursor` at space for the row, in a block of the present epoch; false if there is none.
bool make_room(Cursor* cursor, const Piece& piece, FullPolicy policy) {
  const uint64_t epoch = load(&g_epoch);
  if (!cursor->ring || cursor->epoch >> 32 != epoch >> 32) {
    const uint32_t row_bytes = piece.kind == String::kKind ? 0 : piece.row_bytes;
    if (!claim_into(cursor, piece.kind, row_bytes, epoch, piece.shared)) return false;
  }
  if (cursor->block && cursor->block->committed == 0) {  // new, or only the session changed
    cursor->block->session = static_cast<uint32_t>(epoch);
    cursor->epoch = epoch;
  }
  if (cursor->block && cursor->epoch == epoch && fits(*cursor, piece)) return true;
  seal(cursor);
  cursor->epoch = epoch;
  return next_block(cursor, epoch, policy);
}

bool append(Cursor* cursor, const Piece& piece, FullPolicy policy) {
  if (!fits(*cursor, piece) || cursor->epoch != load(&g_epoch)) {
    if (!make_room(cursor, piece, policy)) return false;
  }
  const uint32_t bytes = piece.bytes();
  memcpy(cursor->position, piece.row, piece.row_bytes);
  if (bytes > piece.row_bytes) {
    memset(cursor->position + bytes - 8, 0, 8);
    memcpy(cursor->position + piece.row_bytes, piece.text.data(), piece.text.size());
  }
  cursor->position += bytes;
  const char* payload = reinterpret_cast<const char*>(cursor->block + 1);
  store(&cursor->block->committed, static_cast<uint32_t>(cursor->position - payload));
  return true;
}

}  // namespace

ThreadState* thread_state() { return reinterpret_cast<ThreadState*>(thread_cursors()); }

void set_full_policy(FullPolicy policy) { g_full_policy = policy; }

void set_thread_hook(void (*hook)()) { store(&g_thread_hook, hook); }

void set_wait_handler(void (*handler)()) { t_wait_handler = handler; }

bool append_definition(uint16_t kind, const void* row, uint32_t row_bytes, std::string_view text,
                       bool count) {
  SharedRing& shared = g_definition_rings[kind];
  LockGuard guard(shared.lock);
  const Piece piece = {kind, true, row_bytes, row, text};
  if (!arena() || piece.bytes() > kBlockPayloadBytes) return false;
  if (append(&shared.cursor, piece, FullPolicy::drop_newest)) return true;
  if (count && shared.cursor.ring) count_lost(shared.cursor.ring);
  return false;
}

void wait_for_definitions(uint16_t kind, OnFull on_full) {
  SharedRing& shared = g_definition_rings[kind];
  shared.lock.lock();
  RingDescriptor* ring = arena() ? shared.cursor.ring : nullptr;
  shared.lock.unlock();
  const bool patient = on_full == OnFull::wait || g_full_policy == FullPolicy::wait;
  if (ring) wait_for_room(ring, &shared.gave_up_at, patient ? kWaitLimitNs : kDefinitionWaitNs);
}

namespace {

bool write_definition(uint16_t kind, const void* row, uint32_t row_bytes, OnFull on_full) {
  if (!append_definition(kind, row, row_bytes, {}, false)) {
    wait_for_definitions(kind, on_full);
    if (!append_definition(kind, row, row_bytes, {}, true)) return false;
  }
  if (kind != Process::kKind && kind != Thread::kKind) log_definition(kind, row, row_bytes, {});
  return true;
}

}  // namespace

bool write_row(uint16_t kind, const void* row, uint32_t row_bytes, OnFull on_full) {
  if (kind >= kKinds || kind == String::kKind || row_bytes == 0 || row_bytes % 8 || !arena()) return false;
  if (is_definition(kind)) return write_definition(kind, row, row_bytes, on_full);
  Cursor* cursors = thread_cursors();
  if (!cursors) return false;
  Cursor* cursor = &cursors[kind];
  const FullPolicy policy = on_full == OnFull::wait ? FullPolicy::wait : g_full_policy;
  if (append(cursor, Piece{kind, false, row_bytes, row, {}}, policy)) return true;
  if (cursor->ring) count_lost(cursor->ring);
  return false;
}

void close_thread_rings() {
  if (t_cursors) close_rings(t_cursors);
}

RingStatistics ring_statistics() {
  RingStatistics total = {load(&g_rows_sealed), load(&g_lost_recycled)};
  const ArenaMap* map = arena_map();
  if (!map) return total;
  const ArenaHeader* header = map->header;
  total.dropped += load(&header->lost_no_ring);
  const uint32_t count = load(&header->ring_count);
  for (uint32_t i = 0; i < count && i < kRingCapacity; ++i) {
    const RingDescriptor* ring = &map->rings[i];
    const uint32_t state = load(&ring->state);
    if (state == kClaiming) continue;
    total.dropped += load(&ring->lost, __ATOMIC_RELAXED);
    const uint64_t produced = load(&ring->produced);
    if (state != kOpen || (produced < ring->block_count && produced >= load(&ring->ready))) continue;
    const BlockHeader* open = block_at(*map, ring, produced);
    if (load(&open->sequence) == produced && open->writer == ring->writer) total.written += rows_in(open);
  }
  return total;
}

void reset_ring_state(bool forked) {
  for (SharedRing& shared : g_definition_rings) {
    if (forked) shared.lock.reset();
    LockGuard guard(shared.lock);
    shared.cursor = Cursor{};
  }
  if (forked) t_cursors = nullptr;
  store(&g_closed_rings, 0u);
  store(&g_rows_sealed, uint64_t{0});
  store(&g_lost_recycled, uint64_t{0});
}

}  // namespace warpsight
