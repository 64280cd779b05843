// The arena's place in this process; only the files of native/ring use it.
#pragma once

#include "ring/lock.h"
#include "ring/ring.h"

namespace warpsight {

// An arena as this process maps it. Never freed or changed once published, so a thread that took the pointer
// may go on using it when the arena has been retired: then it writes to private memory.
struct ArenaMap {
  ArenaHeader* header;
  RingDescriptor* rings;
  char* blocks;
  uint32_t capacity;  // blocks
  bool bounded;       // of a file system that may be full: blocks get their memory before they are used
  const ArenaMap* previous;  // keeps retired ones reachable: a program's leak checker must not mind us
};
const ArenaMap* arena_map();   // nullptr without an arena
extern SpinLock g_arena_lock;  // protects making, retiring and forgetting an arena

uint64_t monotonic_ns();

// Allocates memory for `bytes` at `address` of an arena; false if that fails, and a store would kill the
// process with SIGBUS.
bool populate(const void* address, uint64_t bytes);

// ring.cpp: what a new arena or a forked child must make it drop.
void reset_ring_state(bool forked);
// intern.cpp: writes every logged definition to the arena that was just made; forgets all of them in a forked
// child.
void replay_definitions();
void forget_definitions();

// A thread's state: where its next rows go, and the ids of names and shapes it used recently.
struct CachedName {
  const char* address;  // the caller's
  const char* text;     // ours, to compare with
  uint32_t id;
};
constexpr uint32_t kCachedNames = 256;
constexpr uint32_t kCachedShapes = 16;
struct ThreadState {
  Cursor cursors[kKinds];  // first: t_cursors points at it
  CachedName names[kCachedNames];
  Shape shapes[kCachedShapes];
};
ThreadState* thread_state();  // nullptr only without memory

// Appends to the shared ring of a definition kind: `row`, then `text` padded with zeros to a multiple of 8.
// Never waits; a dropped row is counted if `count`.
bool append_definition(uint16_t kind, const void* row, uint32_t row_bytes, std::string_view text, bool count);
// Waits, bounded, until the shared ring of that kind has room. The caller holds no lock.
void wait_for_definitions(uint16_t kind, OnFull on_full);
// Keeps a definition for later arenas; returns where its string is kept.
const char* log_definition(uint16_t kind, const void* row, uint32_t row_bytes, std::string_view text);

}  // namespace warpsight
