// Rings: how any thread of the traced process hands rows to the drainer. See docs/reference/segments.md.
//
// A thread owns one ring per record kind, claimed from the process's arena at its first row of that kind. Writing is a
// bounds check, a copy and one release store; nothing is allocated or locked after the claim.
#pragma once

#include <cstdint>
#include <string_view>

#include "layout.h"  // generated from src/warpsight/capture/layout.py

namespace warpsight {

// What a writer does when its ring is full: application threads drop, our own threads wait (bounded) for the drainer.
enum class OnFull { drop, wait };

// Makes the arena of this process (a sparse memfd) or returns the one that exists; nullptr with errno set on failure.
// Not for forked children: `forget_arena` runs there first.
ArenaHeader* create_arena();
ArenaHeader* arena();   // nullptr before create_arena and in a forked child
int arena_fd();         // -1 likewise
void forget_arena();    // after fork, in the child: drops every reference, writes nothing

// Stamps blocks begun from now on with this recorder session (the high half of correlation ids).
void set_session(uint32_t session);

// Appends one row to the calling thread's ring of that kind. `row` has `row_bytes` bytes. False when it was dropped
// (counted in the ring's descriptor or, without a ring, in the arena header).
bool write_row(uint16_t kind, const void* row, uint32_t row_bytes, OnFull on_full);

template <class Row>
inline bool write(const Row& row, OnFull on_full = OnFull::drop) {
  return write_row(Row::kKind, &row, sizeof(Row), on_full);
}

// Seals nothing but publishes everything written; closes the calling thread's rings (also run at thread exit).
void close_thread_rings();

// Ids of definitions, written to the arena the first time they are seen. Thread-safe; 0 for an empty string or when
// there is no arena. Strings longer than kMaxStringBytes are cut.
constexpr uint32_t kMaxStringBytes = 32768;
uint32_t intern(std::string_view text);
// For C strings at addresses that usually stay (kernel names, API names): a per-thread cache by pointer that compares
// the whole text before it believes the pointer.
uint32_t intern_c(const char* text);
uint32_t intern_shape(const Shape& shape);  // shape.id is ignored

}  // namespace warpsight
