// Device side of probes: what the code that warpsight/sass/probes/ptx.py writes for a user's function calls.
// That code takes the place of ws_record in patches.ptx; scripts/generate_patches.py makes probes.ptx.
//
// Numbers of a probe are 64 bits wide. A map's `words` are those of one owner.
#include "sanitizer/event_format.h"
#include "sanitizer/probe_format.h"

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#define PROBE extern "C" __device__
#define DEVICE static __device__ __forceinline__

namespace {

constexpr u64 kSign = 1ull << 63;
constexpr u32 kByAddress = 1u << 25;  // as in ws_record's `what`
constexpr u32 kTopSteps = 64;         // places of a table that a key may take

DEVICE u64 block_of_grid() {
  return blockIdx.x + gridDim.x * (blockIdx.y + static_cast<u64>(gridDim.y) * blockIdx.z);
}

DEVICE u32 thread_of_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

DEVICE u32 threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

DEVICE u64 owner(const WsLaunch* launch, u32 scope) {
  const u64 block = block_of_grid() - launch->block_low;
  if (scope == WS_PER_BLOCK) return block;
  if (scope == WS_PER_WARP) return block * ((threads_of_block() + 31) / 32) + thread_of_block() / 32;
  return scope == WS_PER_THREAD ? block * threads_of_block() + thread_of_block() : 0;
}

DEVICE u64* words_of(const WsLaunch* launch, u32 map, u32 scope, u64 words) {
  return launch->probe->maps[map] + 1 + owner(launch, scope) * words;
}

DEVICE void lose(const WsLaunch* launch, u32 map) { atomicAdd(launch->probe->maps[map], 1ull); }

// An element of a map; null where it has no such key, which is counted.
DEVICE u64* element(const void* userdata, u32 map, u32 scope, u64 words, i64 key) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (static_cast<u64>(key) < words) return words_of(launch, map, scope, words) + key;
  lose(launch, map);
  return nullptr;
}

// How many lanes this lane represents: if all active lanes bring one value to one element, the first brings
// it for all of them.
DEVICE u32 lanes_for(const u64* at, u64 value) {
  const u32 lanes = __activemask();
  int same_place, same_value;
  __match_all_sync(lanes, reinterpret_cast<u64>(at), &same_place);
  __match_all_sync(lanes, value, &same_value);
  if (same_place == 0 || same_value == 0) return 1;
  u32 below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  return (lanes & below) == 0 ? static_cast<u32>(__popc(lanes)) : 0;
}

DEVICE void add(u64* at, u64 value) {
  const u32 lanes = lanes_for(at, value);
  if (lanes > 0) atomicAdd(at, value * lanes);
}

DEVICE void raise(u64* at, u64 value) {
  if (lanes_for(at, value) > 0) atomicMax(at, value);
}

}  // namespace

// The launch that an instruction belongs to (found by searching, for the kernels of a graph); null if there
// is none.
PROBE const void* wsp_launch(const void* userdata, u64 pc) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  while (launch != nullptr && launch->probe->bytes != 0 && pc - launch->probe->pc >= launch->probe->bytes)
    launch = launch->probe->next;
  return launch;
}

// The probes of this launch that see an event of these lanes; 0 where the selection leaves it out.
PROBE u32 wsp_enabled(const void* userdata, u64 pc, u32 what, u64 address) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  const u64 block = block_of_grid();
  if (block < launch->block_low || block >= launch->block_high) return 0;
  if ((launch->warps >> (thread_of_block() / 32 & 31) & 1) == 0) return 0;
  bool inside = launch->pc_ranges == 0;
  for (u32 i = 0; i < launch->pc_ranges; ++i) inside |= pc >= launch->pc[2 * i] && pc < launch->pc[2 * i + 1];
  if ((what & kByAddress) != 0) inside &= address >= launch->address_low && address < launch->address_high;
  return inside ? launch->probe->enabled : 0;
}

PROBE i64 wsp_pc(const void* userdata, u64 pc) {
  return static_cast<int>(static_cast<u32>(pc - static_cast<const WsLaunch*>(userdata)->probe->pc));
}
PROBE i64 wsp_block() { return static_cast<i64>(block_of_grid()); }
PROBE i64 wsp_thread() { return thread_of_block(); }
PROBE i64 wsp_block_threads() { return threads_of_block(); }
PROBE i64 wsp_grid_blocks() { return static_cast<i64>(gridDim.x) * gridDim.y * gridDim.z; }

// How many sectors of 32 bytes the lanes ask for; all of them call.
PROBE i64 wsp_sectors(u32 lanes, u64 address) {
  const u32 same = __match_any_sync(lanes, address / 32);
  u32 below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  return __popc(__ballot_sync(lanes, (same & below) == 0));
}

// Half of what a lane stores, or of the memory that it loads from, read just before the load; 0 if unknown.
PROBE i64 wsp_value(const void* data, u32 what, u32 half) {
  const u32 size = what >> 16 & 255;
  const auto* bytes = static_cast<const volatile unsigned char*>(data);
  const u64 address = reinterpret_cast<u64>(data);
  if (data == nullptr || size <= 8 * half) return 0;
  if (size >= 8 && address % 8 == 0) return static_cast<i64>(static_cast<const volatile u64*>(data)[half]);
  if (size == 4 && address % 4 == 0) return *static_cast<const volatile u32*>(data);
  u64 value = 0;
  for (u32 i = 8 * half; i < size && i < 8 * half + 8; ++i)
    value |= static_cast<u64>(bytes[i]) << (i % 8 * 8);
  return static_cast<i64>(value);
}

PROBE i64 wsp_get(const void* userdata, u32 map, u32 scope, u64 words, i64 key) {
  const u64* at = element(userdata, map, scope, words, key);
  return at != nullptr ? static_cast<i64>(*const_cast<const volatile u64*>(at)) : 0;
}

PROBE void wsp_last(const void* userdata, u32 map, u32 scope, u64 words, i64 key, i64 value) {
  u64* at = element(userdata, map, scope, words, key);
  if (at != nullptr) *const_cast<volatile u64*>(at) = static_cast<u64>(value);
}

PROBE void wsp_sum(const void* userdata, u32 map, u32 scope, u64 words, i64 key, i64 value) {
  u64* at = element(userdata, map, scope, words, key);
  if (at == nullptr) return;
  if (scope == WS_PER_THREAD)
    *at += static_cast<u64>(value);
  else
    add(at, static_cast<u64>(value));
}

PROBE void wsp_or(const void* userdata, u32 map, u32 scope, u64 words, i64 key, i64 value) {
  u64* at = element(userdata, map, scope, words, key);
  if (at != nullptr && lanes_for(at, static_cast<u64>(value)) > 0) atomicOr(at, static_cast<u64>(value));
}

// Kept so that zero is below every value: the map reads as empty where nothing came.
PROBE void wsp_max(const void* userdata, u32 map, u32 scope, u64 words, i64 key, i64 value) {
  u64* at = element(userdata, map, scope, words, key);
  if (at != nullptr) raise(at, static_cast<u64>(value) ^ kSign);
}

PROBE void wsp_min(const void* userdata, u32 map, u32 scope, u64 words, i64 key, i64 value) {
  u64* at = element(userdata, map, scope, words, key);
  if (at != nullptr) raise(at, ~(static_cast<u64>(value) ^ kSign));
}

// A table of keys and their sums: `words` / 2 of them, a power of two. A key is kept so that none is zero.
PROBE void wsp_top(const void* userdata, u32 map, u32 scope, u64 words, i64 key, i64 weight) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  u64* table = words_of(launch, map, scope, words);
  const u64 tag = static_cast<u64>(key) ^ kSign;
  const u64 mask = words / 2 - 1;
  u64 at = (tag * 0x9e3779b97f4a7c15ull >> 32) & mask;
  for (u32 step = 0; tag != 0 && step < kTopSteps && step <= mask; ++step, at = (at + 1) & mask) {
    u64 found = *const_cast<volatile u64*>(table + 2 * at);
    if (found == 0) found = atomicCAS(table + 2 * at, 0ull, tag);
    if (found != 0 && found != tag) continue;
    add(table + 2 * at + 1, static_cast<u64>(weight));
    return;
  }
  lose(launch, map);
}

// Where the next row of a ring goes: a count of rows, then the rows. One that several threads write to does
// not wrap, since two of them could be at work on one row: it takes no more rows when it is full.
PROBE u64* wsp_row(const void* userdata, u32 map, u32 scope, u64 words, u64 columns, u32 wraps) {
  u64* ring = words_of(static_cast<const WsLaunch*>(userdata), map, scope, words);
  const u64 rows = (words - 1) / columns;
  const u64 number = atomicAdd(ring, 1ull);
  if (number >= rows && wraps == 0) return nullptr;
  return ring + 1 + number % rows * columns;
}
