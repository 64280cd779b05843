// Device side of event traces: the functions that the Sanitizer's patches call before (or after) an
// instruction.
//
// Those named ws_visit_KIND serve delay plans: they note instructions, or wait before them (event_format.h).
// The others record what an instruction does.
//
// Each takes part as one warp: the lanes that called together write one record (event_format.h) to a ring in
// host memory and wait while the ring is full, so nothing is lost. patches.ptx is what is shipped, made from
// this file by scripts/generate_patches.py; the user's machine assembles it for its own GPU.
//
// The patches themselves have no branches, and leave all decisions to ws_record: a patch with a convergence
// barrier of its own, within a function that the kernel calls, ended in an illegal memory access (sm_90,
// driver 580).
#include "sanitizer/event_format.h"

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#define PATCH extern "C" __device__ __noinline__ int
#define DEVICE static __device__ __forceinline__

namespace {

constexpr u32 kRead = 1, kWrite = 2, kPrefetch = 8;  // Sanitizer_DeviceMemoryFlags
constexpr u64 kBaseLimit = 1ull << 48;

// The lanes that record together.
struct Group {
  u32 lanes;
  u32 leader;
  u32 count;
  u32 rank;  // of this lane among them
  u32 lane;
};

// An operand as it will be written.
struct Plan {
  u32 encoding;
  u32 words;
  u64 base;
  i64 step;
};

DEVICE Group group_of(u32 lanes) {
  u32 lane, below;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  return {lanes, static_cast<u32>(__ffs(lanes)) - 1, static_cast<u32>(__popc(lanes)),
          static_cast<u32>(__popc(lanes & below)), lane};
}

DEVICE Plan plan(const Group& group, u64 value) {
  Plan made;
  made.base = __shfl_sync(group.lanes, value, group.leader);
  const u32 others = group.lanes & (group.lanes - 1);
  const u64 second = __shfl_sync(group.lanes, value, others != 0 ? __ffs(others) - 1 : group.leader);
  made.step = static_cast<i64>(second - made.base);
  const bool follows = value == made.base + static_cast<u64>(made.step) * group.rank;
  const bool small = made.step >= -32768 && made.step <= 32767 && made.base < kBaseLimit;
  const i64 offset = static_cast<i64>(value - made.base);
  const bool near = offset >= -2147483648ll && offset <= 2147483647ll;
  if (__all_sync(group.lanes, follows && small)) {
    made.encoding = WS_AFFINE;
    made.words = 1;
  } else if (__all_sync(group.lanes, near)) {
    made.encoding = WS_OFFSETS;
    made.words = 1 + (group.count + 1) / 2;
  } else {
    made.encoding = WS_LIST;
    made.words = group.count;
  }
  return made;
}

// Every word of a record is written once, whole, and is not zero: the reader takes a record when all of it is
// there, and no fence is needed, which across the bus costs a microsecond.
DEVICE void store(const WsLaunch* launch, u64 at, u64 value) {
  *reinterpret_cast<volatile u64*>(launch->ring + (at & launch->mask)) = value != 0 ? value : launch->zero;
}

// Two lanes to a word: the first of each pair writes for both.
DEVICE void store_pairs(const WsLaunch* launch, const Group& group, u64 at, u32 value) {
  const u32 above = group.lanes & ~((2u << group.lane) - 1);
  const u32 next = __shfl_sync(group.lanes, value, above != 0 ? __ffs(above) - 1 : group.lane);
  if (group.rank % 2 == 0)
    store(launch, at + group.rank / 2, value | (above != 0 ? static_cast<u64>(next) << 32 : 0));
}

DEVICE void write_operand(const WsLaunch* launch, const Group& group, const Plan& plan, u64 at, u64 value) {
  if (plan.encoding == WS_AFFINE) {
    if (group.lane == group.leader) store(launch, at, plan.base | static_cast<u64>(plan.step & 0xffff) << 48);
  } else if (plan.encoding == WS_OFFSETS) {
    if (group.lane == group.leader) store(launch, at, plan.base);
    store_pairs(launch, group, at + 1, static_cast<u32>(value - plan.base));
  } else if (plan.encoding == WS_LIST) {
    store(launch, at + group.rank, value);
  }
}

DEVICE u32 block_of_grid() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

DEVICE u32 warp_of_block() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
}

// Whether this launch, block, warp and instruction are recorded: the same for all lanes of a warp.
DEVICE bool chosen(const WsLaunch* launch, u64 pc) {
  const u32 block = block_of_grid();
  if (block < launch->block_low || block >= launch->block_high) return false;
  if ((launch->warps >> (warp_of_block() & 31) & 1) == 0) return false;
  if (launch->pc_ranges == 0) return true;
  bool inside = false;
  for (u32 i = 0; i < launch->pc_ranges; ++i) inside |= pc >= launch->pc[2 * i] && pc < launch->pc[2 * i + 1];
  return inside;
}

// Waits until the ring has room for the words up to `end`. How far the reader is was last seen is kept on the
// device, since a look at the host's memory takes a microsecond. Signed: a reader that gave up says that it
// is far ahead.
DEVICE void wait_for_room(const WsLaunch* launch, u64 end) {
  const i64 room = static_cast<i64>(launch->mask + 1);
  if (static_cast<i64>(end - *launch->tail_seen) <= room) return;
  u64 tail = *launch->tail;
  while (static_cast<i64>(end - tail) > room) {
    __nanosleep(500);
    tail = *launch->tail;
  }
  *launch->tail_seen = tail;
}

// Words of the ring for a record; ~0 when `every` or `first` leave it out.
DEVICE u64 reserve(const WsLaunch* launch, const Group& group, u32 words) {
  u64 at = 0;
  if (group.lane == group.leader) {
    bool wanted = true;
    if (launch->every > 1 || launch->first != ~0ull) {
      const u64 number = atomicAdd(launch->counter, 1ull);
      wanted = number % launch->every == 0 && number / launch->every < launch->first;
    }
    at = wanted ? atomicAdd(launch->head, static_cast<u64>(words)) : ~0ull;
    if (wanted) wait_for_room(launch, at + words);
  }
  return __shfl_sync(group.lanes, at, group.leader);
}

struct Values {
  u32 encoding;
  u32 words;
  u64 low;
  u64 high;
};

DEVICE Values no_values() { return {WS_NONE, 0, 0, 0}; }

// What a lane stores, or finds where it loads from, as 16 bytes.
DEVICE Values values_at(const Group& group, const void* data, u32 size) {
  Values read = {WS_VALUE_EACH, 0, 0, 0};
  const auto* bytes = static_cast<const volatile unsigned char*>(data);
  const u64 address = reinterpret_cast<u64>(data);
  if (size == 16 && address % 8 == 0) {
    read.low = reinterpret_cast<const volatile u64*>(data)[0];
    read.high = reinterpret_cast<const volatile u64*>(data)[1];
  } else if (size == 8 && address % 8 == 0) {
    read.low = *reinterpret_cast<const volatile u64*>(data);
  } else if (size == 4 && address % 4 == 0) {
    read.low = *reinterpret_cast<const volatile u32*>(data);
  } else {
    for (u32 i = 0; i < size && i < 16; ++i)
      (i < 8 ? read.low : read.high) |= static_cast<u64>(bytes[i]) << (i % 8 * 8);
  }
  const u64 low = __shfl_sync(group.lanes, read.low, group.leader);
  const u64 high = __shfl_sync(group.lanes, read.high, group.leader);
  if (__all_sync(group.lanes, read.low == low && read.high == high)) {
    read.encoding = WS_VALUE_ONE;
    read.words = size > 8 ? 2 : 1;
  } else {
    read.words = size > 8 ? 2 * group.count : size > 4 ? group.count : (group.count + 1) / 2;
  }
  return read;
}

DEVICE void write_values(const WsLaunch* launch, const Group& group, const Values& values, u64 at, u32 size) {
  if (values.encoding == WS_NONE) return;
  if (values.encoding == WS_VALUE_ONE) {
    if (group.lane == group.leader) {
      store(launch, at, values.low);
      if (size > 8) store(launch, at + 1, values.high);
    }
  } else if (size > 8) {
    store(launch, at + 2 * group.rank, values.low);
    store(launch, at + 2 * group.rank + 1, values.high);
  } else if (size > 4) {
    store(launch, at + group.rank, values.low);
  } else {
    store_pairs(launch, group, at, static_cast<u32>(values.low));
  }
}

struct Event {
  u64 pc;
  u32 kind;
  u32 flags;
  u32 size;
};

DEVICE void write(const WsLaunch* launch, const Group& group, const Event& event, const Plan& a, u64 value_a,
                  const Plan& b, u64 value_b, const Values& values) {
  const u32 words = WS_EVENT_HEADER_WORDS + a.words + b.words + values.words;
  const u64 at = reserve(launch, group, words);
  if (at == ~0ull) return;
  if (group.lane == group.leader) {
    u64 now;
    u32 sm;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    store(launch, at + 1, (event.pc & 0xffffffffull) | static_cast<u64>(block_of_grid()) << 32);
    store(launch, at + 2,
          launch->launch | static_cast<u64>(warp_of_block() & 255) << 32 |
              static_cast<u64>(event.flags & 255) << 40 | static_cast<u64>(sm & 65535) << 48);
    store(launch, at + 3, now);
  }
  u64 place = at + WS_EVENT_HEADER_WORDS;
  write_operand(launch, group, a, place, value_a);
  place += a.words;
  write_operand(launch, group, b, place, value_b);
  place += b.words;
  write_values(launch, group, values, place, event.size);
  if (group.lane != group.leader) return;
  const u32 encodings = a.encoding | b.encoding << 2 | values.encoding << 4;
  store(launch, at,
        static_cast<u64>(group.lanes) | static_cast<u64>(event.kind) << 32 | static_cast<u64>(words) << 40 |
            static_cast<u64>(encodings) << 48 | static_cast<u64>(event.size & 255) << 56);
}

DEVICE Plan nothing() { return {WS_NONE, 0, 0, 0}; }

// Records one event. `what` is kind | flags << 8 | bytes << 16 | one of the two bits below; `data` points to
// the values.
constexpr u32 kHasB = 1u << 24, kByAddress = 1u << 25;

}  // namespace

extern "C" __device__ __noinline__ int ws_record(void* userdata, u64 pc, u32 what, u64 a, u64 b,
                                                 const void* data) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr || !chosen(launch, pc)) return 0;
  const Event event = {pc, what & 255, what >> 8 & 255, what >> 16 & 255};
  const u32 together = __activemask();
  const bool inside = (what & kByAddress) == 0 || (a >= launch->address_low && a < launch->address_high);
  const u32 lanes = __ballot_sync(together, inside);
  if (!inside) return 0;
  const Group group = group_of(lanes);
  const Plan plan_a = plan(group, a);
  const Plan plan_b = (what & kHasB) != 0 ? plan(group, b) : nothing();
  const bool read = launch->values != 0 && __all_sync(lanes, data != nullptr);
  const Values values = read ? values_at(group, data, event.size) : no_values();
  write(launch, group, event, plan_a, a, plan_b, b, values);
  return 0;
}

namespace {

// An event that no address selects: a barrier, a call.
DEVICE int emit(void* userdata, const Event& event, u64 a, bool with_b = false, u64 b = 0) {
  const u32 what = event.kind | (event.flags & 255) << 8 | (event.size & 255) << 16;
  return ws_record(userdata, event.pc, what | (with_b ? kHasB : 0), a, b, nullptr);
}

// An event with a memory address, which the address range selects by lane.
DEVICE int access(void* userdata, const Event& event, u64 address, const void* data, bool with_b = false,
                  u64 b = 0) {
  const u32 what = event.kind | (event.flags & 255) << 8 | (event.size & 255) << 16 | kByAddress;
  return ws_record(userdata, event.pc, what | (with_b ? kHasB : 0), address, b, data);
}

// Where the values of an access are: what is stored, or for a load the memory itself, just before it is read.
DEVICE const void* value_of(u32 flags, const void* data, const void* memory) {
  const u64 where = reinterpret_cast<u64>((flags & kWrite) != 0 ? data : memory);
  const bool atomic = (flags & (kRead | kWrite)) == (kRead | kWrite);
  return reinterpret_cast<const void*>(atomic || (flags & kPrefetch) != 0 ? 0 : where);
}

DEVICE const void* of_window(u64 offset, bool shared) {
  u64 generic;
  if (shared)
    asm("cvta.shared.u64 %0, %1;" : "=l"(generic) : "l"(offset));
  else
    asm("cvta.local.u64 %0, %1;" : "=l"(generic) : "l"(offset));
  return reinterpret_cast<const void*>(generic);
}

}  // namespace

PATCH ws_global(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  return access(userdata, {pc, 3, flags, size}, reinterpret_cast<u64>(address),
                value_of(flags, data, address));
}

PATCH ws_shared(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  const u64 offset = reinterpret_cast<u64>(address);
  return access(userdata, {pc, 4, flags, size}, offset, value_of(flags, data, of_window(offset, true)));
}

PATCH ws_local(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  return access(userdata, {pc, 5, flags, size}, reinterpret_cast<u64>(address),
                value_of(flags, data, nullptr));
}

PATCH ws_remote(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  return access(userdata, {pc, 17, flags, size}, reinterpret_cast<u64>(address),
                value_of(flags, data, nullptr));
}

PATCH ws_matrix(void* userdata, u64 pc, u32 address, u32 size, u32 flags, u32 count, const void*) {
  return access(userdata, {pc, 19, flags, size}, address, nullptr, true, count);
}

PATCH ws_copy_async(void* userdata, u64 pc, void* source, u32 target, u32 size) {
  return access(userdata, {pc, 14, kRead | kWrite, size}, reinterpret_cast<u64>(source), nullptr, true,
                target);
}

PATCH ws_barrier(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  return emit(userdata, {pc, 6, flags, 0}, index, true, threads);
}

PATCH ws_barrier_release(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  return emit(userdata, {pc, 29, flags, 0}, index, true, threads);
}

PATCH ws_syncwarp(void* userdata, u64 pc, u32 lanes) { return emit(userdata, {pc, 7, 0, 0}, lanes); }

PATCH ws_syncwarp_release(void* userdata, u64 pc, u32 lanes) { return emit(userdata, {pc, 33, 0, 0}, lanes); }

PATCH ws_block_enter(void* userdata, u64 pc) { return emit(userdata, {pc, 1, 0, 0}, 0); }

PATCH ws_block_exit(void* userdata, u64 pc) { return emit(userdata, {pc, 2, 0, 0}, 0); }

PATCH ws_shuffle(void* userdata, u64 pc) { return emit(userdata, {pc, 8, 0, 0}, 0); }

PATCH ws_call(void* userdata, u64 pc, u64 target, u32 flags) {
  return emit(userdata, {pc, 9, flags, 0}, target);
}

PATCH ws_return(void* userdata, u64 pc) { return emit(userdata, {pc, 10, 0, 0}, 0); }

PATCH ws_malloc(void* userdata, u64 pc, void* address, u64 size) {
  return emit(userdata, {pc, 11, 0, 0}, reinterpret_cast<u64>(address), true, size);
}

PATCH ws_aligned_malloc(void* userdata, u64 pc, void* address, u64 size) {
  return emit(userdata, {pc, 18, 0, 0}, reinterpret_cast<u64>(address), true, size);
}

PATCH ws_free(void* userdata, u64 pc, void* address) {
  return emit(userdata, {pc, 12, 0, 0}, reinterpret_cast<u64>(address));
}

// The action is in the flags; for an attempt, bit 7 says that the wait succeeded.
PATCH ws_mbarrier(void* userdata, u64 pc, void* barrier, u32 action, u32 data) {
  return emit(userdata, {pc, 13, action & 127, 0}, reinterpret_cast<u64>(barrier), true, data);
}

PATCH ws_mbarrier_attempt(void* userdata, u64 pc, void* barrier, u32 action, u32 data, u32 result) {
  const u32 flags = (action & 127) | (result != 0 ? 128 : 0);
  return emit(userdata, {pc, 39, flags, 0}, reinterpret_cast<u64>(barrier), true, data);
}

PATCH ws_copy_async_barrier(void* userdata, u64 pc, u32 barrier) {
  return emit(userdata, {pc, 34, 0, 0}, barrier);
}

PATCH ws_pipeline_commit(void* userdata, u64 pc) { return emit(userdata, {pc, 15, 0, 0}, 0); }

PATCH ws_pipeline_wait(void* userdata, u64 pc, u32 groups) { return emit(userdata, {pc, 16, 0, 0}, groups); }

// Bulk copies have three operands: A is the address outside of shared memory (the target, between shared
// memories), B the shared one in its low half and 16-byte blocks in bits 32-47; the barrier's record of its
// own kind says the rest.
PATCH ws_bulk_load(void* userdata, u64 pc, u64 source, u32 target, u32 barrier, u32 data, u32 multicast) {
  (void)barrier;
  return emit(userdata, {pc, 30, multicast != 0 ? 128u : 0u, 16}, source, true,
              target | static_cast<u64>(data & 65535) << 32);
}

PATCH ws_bulk_store(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return emit(userdata, {pc, 35, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_bulk_shared(void* userdata, u64 pc, u32 source, u32 target, u32 barrier, u32 blocks) {
  (void)barrier;
  return emit(userdata, {pc, 36, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_bulk_reduce(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return emit(userdata, {pc, 37, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_bulk_reduce_shared(void* userdata, u64 pc, u32 source, u32 target, u32 barrier, u32 blocks) {
  (void)barrier;
  return emit(userdata, {pc, 38, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_store_async(void* userdata, u64 pc, u32 address, u32 barrier, void*, u32 size) {
  return emit(userdata, {pc, 26, 0, size}, address, true, barrier);
}

PATCH ws_reduce_async(void* userdata, u64 pc, u32 address, u32 barrier, u32 size) {
  return emit(userdata, {pc, 27, 0, size}, address, true, barrier);
}

PATCH ws_memset_shared(void* userdata, u64 pc, u32 address, u32 blocks) {
  return emit(userdata, {pc, 32, 0, 8}, address, true, blocks);
}

PATCH ws_cluster_arrive(void* userdata, u64 pc) { return emit(userdata, {pc, 21, 0, 0}, 0); }

PATCH ws_cluster_wait(void* userdata, u64 pc) { return emit(userdata, {pc, 22, 0, 0}, 0); }

// Operand A and B: address in the low half, bytes in the high half of matrix A (0 bytes: registers) and
// matrix B.
PATCH ws_wgmma(void* userdata, u64 pc, u32 address_a, u32 size_a, u32 address_b, u32 size_b, u32 flags,
               u32 lanes) {
  return emit(userdata, {pc, 23, (flags & 127) | (lanes != 0 ? 128 : 0), 0},
              address_a | static_cast<u64>(size_a) << 32, true, address_b | static_cast<u64>(size_b) << 32);
}

PATCH ws_wgmma_wait(void* userdata, u64 pc, u32 groups, u32 lanes) {
  return emit(userdata, {pc, 24, lanes != 0 ? 128u : 0u, 0}, groups);
}

PATCH ws_wgmma_fence(void* userdata, u64 pc, u32 lanes) {
  return emit(userdata, {pc, 25, lanes != 0 ? 128u : 0u, 0}, 0);
}

PATCH ws_tensor_barrier(void* userdata, u64 pc, u32 barrier, u32 multicast, u32) {
  return emit(userdata, {pc, 31, multicast != 0 ? 128u : 0u, 0}, barrier);
}

namespace {

// Whether an instruction is met for the first time; called by one lane. A full table forgets: the same is
// noted again, which does no harm.
DEVICE bool first_note(const WsLaunch* launch, u64 pc, u32 kind) {
  const u64 entry = 1ull << 40 | static_cast<u64>(kind) << 32 | (pc & 0xffffffffull);
  u32 at = static_cast<u32>((entry * 0x9e3779b97f4a7c15ull) >> 46);
  for (u32 probe = 0; probe < 64; ++probe, at = (at + 1) & (WS_NOTES - 1)) {
    u64 found = *const_cast<volatile u64*>(launch->notes + at);
    if (found == 0) found = atomicCAS(launch->notes + at, 0ull, entry);
    if (found == 0) return true;
    if (found == entry) return false;
  }
  return true;
}

// The plan's point at an instruction; null where there is none.
DEVICE const WsPoint* point_at(const WsLaunch* launch, u64 pc, u32 kind) {
  const u64 wanted = (pc & 0xffffffffull) << 32 | kind;
  u32 low = 0, high = launch->point_count;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    const WsPoint& point = launch->points[middle];
    (static_cast<u64>(point.pc) << 32 | point.kind) < wanted ? low = middle + 1 : high = middle;
  }
  if (low == launch->point_count) return nullptr;
  const WsPoint* found = launch->points + low;
  return (static_cast<u64>(found->pc) << 32 | found->kind) == wanted ? found : nullptr;
}

DEVICE u32 rank_in_cluster(const WsLaunch* launch) {
  const unsigned int* size = launch->cluster;
  return blockIdx.x % size[0] + size[0] * (blockIdx.y % size[1] + size[1] * (blockIdx.z % size[2]));
}

// Whether the plan has this block wait: the same for all threads of a block.
DEVICE bool block_waits(const WsLaunch* launch) {
  if ((launch->ranks >> (rank_in_cluster(launch) & 31) & 1) == 0) return false;
  if (launch->block_count == 0) return true;
  const u32 block = block_of_grid();
  u32 low = 0, high = launch->block_count;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    launch->blocks[middle].high <= block ? low = middle + 1 : high = middle;
  }
  return low < launch->block_count && launch->blocks[low].low <= block;
}

// How often this warp came here in this launch; called by one lane.
DEVICE u32 next_occurrence(const WsLaunch* launch, const WsPoint& point) {
  const u64 warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  const u64 at = (block_of_grid() * warps + warp_of_block()) * launch->places + point.place;
  if (at >= launch->occurrence_size) return WS_UNCOUNTED;
  u64* counter = launch->occurrences + at;
  u64 found = *const_cast<volatile u64*>(counter), seen;
  u32 count;
  do {
    seen = found;
    count = seen >> 32 == launch->stamp ? static_cast<u32>(seen) : 0;
    found = atomicCAS(counter, seen, static_cast<u64>(launch->stamp) << 32 | (count + 1));
  } while (found != seen);
  return count;
}

DEVICE i64 delay_of(const WsLaunch* launch, const WsPoint& point, u32 occurrence) {
  const u32 block = block_of_grid(), warp = warp_of_block();
  if (launch->rule.depth == 0)
    return ws_delay_of(launch->rule, point.number, occurrence, launch->index, block, warp);
  const u64 of_block = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  const u64 warps = static_cast<u64>(gridDim.x) * gridDim.y * gridDim.z * of_block;
  return ws_priority_delay(launch->rule, occurrence, launch->index, block * of_block + warp, warps);
}

// A sleep ends after a millisecond at the latest, and as early as it likes.
DEVICE void wait(u64 ns) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (now = begin; now - begin < ns;) {
    const u64 left = ns - (now - begin);
    __nanosleep(left < 1000000 ? static_cast<u32>(left) : 1000000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
}

// A record of one lane for the group: `a` and `b`, below 2^48, are the same for all.
DEVICE void write_visit(const WsLaunch* launch, const Group& group, u64 pc, u32 kind, u32 flags, u32 operands,
                        u64 a, u64 b) {
  const u32 words = WS_EVENT_HEADER_WORDS + operands;
  const u64 at = atomicAdd(launch->head, static_cast<u64>(words));
  wait_for_room(launch, at + words);
  u64 now;
  u32 sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  store(launch, at + 1, (pc & 0xffffffffull) | static_cast<u64>(block_of_grid()) << 32);
  store(launch, at + 2,
        launch->launch | static_cast<u64>(warp_of_block() & 255) << 32 | static_cast<u64>(flags & 255) << 40 |
            static_cast<u64>(sm & 65535) << 48);
  store(launch, at + 3, now);
  if (operands > 0) {
    store(launch, at + 4, a);
    store(launch, at + 5, b);
  }
  const u32 encodings = operands > 0 ? WS_AFFINE | WS_AFFINE << 2 : WS_NONE;
  store(launch, at,
        static_cast<u64>(group.lanes) | static_cast<u64>(kind) << 32 | static_cast<u64>(words) << 40 |
            static_cast<u64>(encodings) << 48);
}

DEVICE void delay(const WsLaunch* launch, u64 pc, u32 kind) {
  if ((launch->warps >> (warp_of_block() & 31) & 1) == 0 || !block_waits(launch)) return;
  const WsPoint* point = point_at(launch, pc, kind);
  if (point == nullptr) return;
  const Group group = group_of(__activemask());
  u32 occurrence = 0;
  if (group.lane == group.leader) occurrence = next_occurrence(launch, *point);
  occurrence = __shfl_sync(group.lanes, occurrence, group.leader);
  const i64 ns = delay_of(launch, *point, occurrence);
  if (ns < 0) return;
  const u64 length = static_cast<u64>(ns);
  if (group.lane == group.leader) write_visit(launch, group, pc, WS_DELAY_KIND, kind, 2, length, occurrence);
  wait(length);
  __syncwarp(group.lanes);
}

}  // namespace

// A warp comes to an instruction of a class.
extern "C" __device__ __noinline__ int ws_visit(void* userdata, u64 pc, u32 kind) {
  const auto* launch = static_cast<const WsLaunch*>(userdata);
  if (launch == nullptr) return 0;
  if (launch->mode == WS_DELAY) {
    delay(launch, pc, kind);
  } else if (launch->mode == WS_NOTE && chosen(launch, pc)) {
    const Group group = group_of(__activemask());
    if (group.lane == group.leader && first_note(launch, pc, kind))
      write_visit(launch, group, pc, kind, 0, 0, 0, 0);
    __syncwarp(group.lanes);
  }
  return 0;
}

// Patches may take fewer arguments than their class has.
#define VISIT(kind) \
  PATCH ws_visit_##kind(void* userdata, u64 pc) { return ws_visit(userdata, pc, kind); }

VISIT(1)
VISIT(2)
VISIT(3)
VISIT(4)
VISIT(6)
VISIT(7)
VISIT(8)
VISIT(13)
VISIT(14)
VISIT(15)
VISIT(16)
VISIT(17)
VISIT(19)
VISIT(21)
VISIT(22)
VISIT(23)
VISIT(24)
VISIT(25)
VISIT(26)
VISIT(27)
VISIT(29)
VISIT(30)
VISIT(31)
VISIT(32)
VISIT(33)
VISIT(34)
VISIT(35)
VISIT(36)
VISIT(37)
VISIT(38)
VISIT(39)
