// Interning: ids of strings and shapes, and the log from which a later arena gets the same definitions again.
#include <stdlib.h>

#include <new>

#include "ring/arena.h"

namespace warpsight {

namespace {

// Definitions one after another in chunks that are never freed or moved, so tables may point into them.
struct LogEntry {
  uint16_t kind;
  uint16_t row_bytes;
  uint32_t text_bytes;
};
constexpr size_t kChunkBytes = 256 * 1024;
struct LogChunk {
  LogChunk* next;
  size_t used;
  char bytes[kChunkBytes];
};
LogChunk* g_first_chunk = nullptr;
LogChunk* g_last_chunk = nullptr;
SpinLock g_log_lock;  // protects the chunks

// Space for a string and at least one zero after it.
size_t kept_bytes(size_t text_bytes) { return (text_bytes + 8) & ~size_t{7}; }

// An open-addressing table of one shard; grows by doubling, never shrinks.
struct StringSlot {
  const char* text;
  uint32_t bytes;
  uint32_t id;  // 0 = empty
  uint64_t hash;
};
struct StringShard {
  SpinLock lock;  // protects the slots
  StringSlot* slots;
  uint32_t capacity;  // a power of two
  uint32_t used;
};
constexpr uint32_t kShards = 64;
StringShard g_strings[kShards];
uint32_t g_next_string = kFirstStringId;  // atomic

uint32_t g_event_limit = 0;  // atomic; maximum number of event strings that are remembered, 0: all
uint32_t g_event_texts = 0;  // atomic; of those, how many are
uint32_t g_next_once = 0;    // atomic; the next once-id above kFirstOnceString, wraps within its range

struct ShapeTable {
  SpinLock lock;  // protects the slots
  Shape* slots;   // id 0 = empty
  uint32_t capacity;
  uint32_t used;
};
ShapeTable g_shapes;

uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93ull;
  value ^= value >> 32;
  return value;
}

uint64_t hash_bytes(const char* bytes, size_t count) {
  uint64_t hash = count * 0x9e3779b97f4a7c15ull;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = mix(hash ^ word);
  }
  uint64_t word = 0;
  memcpy(&word, bytes, count);
  return mix(hash ^ word);
}

// Twice the slots, rehashed; false without memory (the table then stays as it is, and works until it is
// full).
template <class Table, class Slot, class Hash>
bool grow(Table* table, Slot* Table::* slots, Hash hash) {
  const uint32_t capacity = table->capacity ? table->capacity * 2 : 64;
  Slot* bigger = static_cast<Slot*>(calloc(capacity, sizeof(Slot)));
  if (!bigger) return false;
  Slot* old = table->*slots;
  for (uint32_t i = 0; i < table->capacity; ++i) {
    if (old[i].id == 0) continue;
    uint32_t at = static_cast<uint32_t>(hash(old[i])) & (capacity - 1);
    while (bigger[at].id) at = (at + 1) & (capacity - 1);
    bigger[at] = old[i];
  }
  free(old);
  table->*slots = bigger;
  table->capacity = capacity;
  return true;
}

uint64_t slot_hash(const StringSlot& slot) { return slot.hash >> 6; }  // the low bits chose the shard

const StringSlot* find(const StringShard& shard, std::string_view text, uint64_t hash) {
  if (!shard.capacity) return nullptr;
  const uint32_t mask = shard.capacity - 1;
  for (uint32_t at = static_cast<uint32_t>(hash >> 6) & mask; shard.slots[at].id; at = (at + 1) & mask) {
    const StringSlot& slot = shard.slots[at];
    if (slot.hash == hash && slot.bytes == text.size() && memcmp(slot.text, text.data(), text.size()) == 0) {
      return &slot;
    }
  }
  return nullptr;
}

void insert(StringShard* shard, const StringSlot& slot) {
  if (shard->used * 4 >= shard->capacity * 3 && !grow(shard, &StringShard::slots, slot_hash)) return;
  const uint32_t mask = shard->capacity - 1;
  uint32_t at = static_cast<uint32_t>(slot_hash(slot)) & mask;
  while (shard->slots[at].id) at = (at + 1) & mask;
  shard->slots[at] = slot;
  ++shard->used;
}

// The id and our copy of `text`, which is defined if it is new. Id 0 if it could not be defined.
StringSlot intern_slot(std::string_view text) {
  const uint64_t hash = hash_bytes(text.data(), text.size());
  StringShard& shard = g_strings[hash % kShards];
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      LockGuard guard(shard.lock);
      if (const StringSlot* known = find(shard, text, hash)) return *known;
      // Published before the lock is released: no row can use an id that readers do not know.
      const String row = {__atomic_fetch_add(&g_next_string, 1u, __ATOMIC_RELAXED),
                          static_cast<uint32_t>(text.size())};
      if (append_definition(String::kKind, &row, sizeof(row), text, attempt == 1)) {
        StringSlot slot = {log_definition(String::kKind, &row, sizeof(row), text), row.length, row.id, hash};
        if (slot.text) insert(&shard, slot);
        return slot;
      }
    }
    if (attempt == 0) wait_for_definitions(String::kKind, OnFull::drop);
  }
  return StringSlot{};
}

// Writes a string under a new id that is not remembered.
uint32_t write_once(std::string_view text) {
  constexpr auto kFirst = static_cast<uint32_t>(kFirstOnceString);
  constexpr uint32_t kOnceIds = 0x7fffffff - kFirst;
  const uint32_t number = __atomic_fetch_add(&g_next_once, 1u, __ATOMIC_RELAXED) % kOnceIds;
  const String row = {kFirst + number, static_cast<uint32_t>(text.size())};
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (append_definition(String::kKind, &row, sizeof(row), text, attempt == 1)) return row.id;
    if (attempt == 0) wait_for_definitions(String::kKind, OnFull::drop);
  }
  return 0;
}

constexpr size_t kShapeBytes = sizeof(Shape) - sizeof(uint32_t);

const char* shape_content(const Shape& shape) { return reinterpret_cast<const char*>(&shape.grid_x); }

uint64_t shape_hash(const Shape& shape) { return hash_bytes(shape_content(shape), kShapeBytes); }

bool same_shape(const Shape& a, const Shape& b) {
  return memcmp(shape_content(a), shape_content(b), kShapeBytes) == 0;
}

// The id of a shape in the table, new or not; 0 when it is new and could not be written.
uint32_t shape_id(const Shape& shape, uint64_t hash, bool last_attempt) {
  LockGuard guard(g_shapes.lock);
  if (g_shapes.used * 4 >= g_shapes.capacity * 3 && !grow(&g_shapes, &ShapeTable::slots, shape_hash))
    return 0;
  const uint32_t mask = g_shapes.capacity - 1;
  uint32_t at = static_cast<uint32_t>(hash) & mask;
  for (; g_shapes.slots[at].id; at = (at + 1) & mask) {
    if (same_shape(g_shapes.slots[at], shape)) return g_shapes.slots[at].id;
  }
  Shape row = shape;
  row.id = g_shapes.used + 1;
  if (!append_definition(Shape::kKind, &row, sizeof(row), {}, last_attempt)) return 0;
  log_definition(Shape::kKind, &row, sizeof(row), {});
  g_shapes.slots[at] = row;
  ++g_shapes.used;
  return row.id;
}

}  // namespace

const char* log_definition(uint16_t kind, const void* row, uint32_t row_bytes, std::string_view text) {
  const size_t bytes = sizeof(LogEntry) + row_bytes + kept_bytes(text.size());
  LockGuard guard(g_log_lock);
  if (!g_last_chunk || g_last_chunk->used + bytes > kChunkBytes) {
    LogChunk* chunk = static_cast<LogChunk*>(malloc(sizeof(LogChunk)));
    if (!chunk) return nullptr;
    chunk->next = nullptr;
    chunk->used = 0;
    (g_last_chunk ? g_last_chunk->next : g_first_chunk) = chunk;
    g_last_chunk = chunk;
  }
  char* at = g_last_chunk->bytes + g_last_chunk->used;
  g_last_chunk->used += bytes;
  const LogEntry entry = {kind, static_cast<uint16_t>(row_bytes), static_cast<uint32_t>(text.size())};
  memcpy(at, &entry, sizeof(entry));
  memcpy(at + sizeof(entry), row, row_bytes);
  char* kept = at + sizeof(entry) + row_bytes;
  if (!text.empty()) memcpy(kept, text.data(), text.size());
  kept[text.size()] = 0;
  return kept;
}

void replay_definitions() {
  LockGuard guard(g_log_lock);
  for (const LogChunk* chunk = g_first_chunk; chunk; chunk = chunk->next) {
    for (size_t at = 0; at < chunk->used;) {
      LogEntry entry;
      memcpy(&entry, chunk->bytes + at, sizeof(entry));
      const char* row = chunk->bytes + at + sizeof(entry);
      append_definition(entry.kind, row, entry.row_bytes, {row + entry.row_bytes, entry.text_bytes}, true);
      at += sizeof(entry) + entry.row_bytes + kept_bytes(entry.text_bytes);
    }
  }
}

void forget_definitions() {
  // The memory stays: another thread of the parent may have been changing it, and a child that records is
  // rare.
  g_log_lock.reset();
  g_first_chunk = g_last_chunk = nullptr;
  for (StringShard& shard : g_strings) new (&shard) StringShard{};
  new (&g_shapes) ShapeTable{};
  g_next_string = kFirstStringId;
  g_event_texts = 0;
}

uint32_t intern(std::string_view text) {
  if (text.empty() || !arena()) return 0;
  return intern_slot(text.substr(0, kMaxStringBytes)).id;
}

void set_event_text_limit(uint32_t texts) { __atomic_store_n(&g_event_limit, texts, __ATOMIC_RELAXED); }

namespace {

// The slot of an event's string; its `text` is null if the id is not remembered.
StringSlot event_slot(std::string_view text) {
  const uint32_t limit = __atomic_load_n(&g_event_limit, __ATOMIC_RELAXED);
  if (limit == 0) return intern_slot(text);
  const uint64_t hash = hash_bytes(text.data(), text.size());
  {
    StringShard& shard = g_strings[hash % kShards];
    LockGuard guard(shard.lock);
    if (const StringSlot* known = find(shard, text, hash)) return *known;
  }
  if (__atomic_load_n(&g_event_texts, __ATOMIC_RELAXED) >= limit)
    return {nullptr, static_cast<uint32_t>(text.size()), write_once(text), hash};
  __atomic_fetch_add(&g_event_texts, 1u, __ATOMIC_RELAXED);
  return intern_slot(text);
}

uint32_t intern_cached(const char* text, bool event) {
  if (!text || !*text || !arena()) return 0;
  ThreadState* state = thread_state();
  CachedName* cached = nullptr;
  if (state) {
    cached = &state->names[mix(reinterpret_cast<uintptr_t>(text)) % kCachedNames];
    if (cached->address == text && strcmp(cached->text, text) == 0) return cached->id;
  }
  const size_t length = strlen(text);
  const std::string_view cut = {text, length < kMaxStringBytes ? length : kMaxStringBytes};
  const StringSlot slot = event ? event_slot(cut) : intern_slot(cut);
  if (cached && slot.id && slot.text && length < kMaxStringBytes) *cached = {text, slot.text, slot.id};
  return slot.id;
}

}  // namespace

uint32_t intern_event(std::string_view text) {
  return text.empty() || !arena() ? 0 : event_slot(text.substr(0, kMaxStringBytes)).id;
}

uint32_t intern_c(const char* text) { return intern_cached(text, false); }

uint32_t intern_c_event(const char* text) { return intern_cached(text, true); }

uint32_t intern_shape(const Shape& shape) {
  if (!arena()) return 0;
  const uint64_t hash = shape_hash(shape);
  ThreadState* state = thread_state();
  Shape* cached = state ? &state->shapes[(hash >> 32) % kCachedShapes] : nullptr;
  if (cached && cached->id && same_shape(*cached, shape)) return cached->id;
  uint32_t id = shape_id(shape, hash, false);
  if (!id) {
    wait_for_definitions(Shape::kKind, OnFull::drop);
    id = shape_id(shape, hash, true);
  }
  if (cached && id) {
    *cached = shape;
    cached->id = id;
  }
  return id;
}

}  // namespace warpsight
