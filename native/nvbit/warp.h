// How the lanes of a warp that write a record together cooperate. The tests compile it for the host, where a
// thread represents a lane.
#pragma once

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#ifdef __CUDACC__
#define WS_INLINE __device__ __forceinline__
#define WS_DEVICE static WS_INLINE
#define WS_SELDOM static __device__ __noinline__
WS_DEVICE u32 ws_shuffle(u32 lanes, u32 value, u32 lane) { return __shfl_sync(lanes, value, lane); }
WS_DEVICE bool ws_all(u32 lanes, bool holds) { return __all_sync(lanes, holds); }
// Whether it holds in all lanes of a whole warp that has not branched since it is known to be converged;
// without waiting for other lanes, which in a tool's code takes as long as a dozen instructions.
WS_DEVICE bool ws_everywhere(bool holds) {
  u32 lanes = 0;
  if (holds) lanes = __activemask();
  return lanes == ~0u;
}
WS_DEVICE u32 ws_ballot(u32 lanes, bool holds) { return __ballot_sync(lanes, holds); }
WS_DEVICE u32 ws_equal(u32 lanes, u32 value) { return __match_any_sync(lanes, value); }
WS_DEVICE u32 ws_first(u32 lanes) { return static_cast<u32>(__ffs(static_cast<int>(lanes))) - 1; }
WS_DEVICE u32 ws_count(u32 lanes) { return static_cast<u32>(__popc(lanes)); }
// In global memory, which the compiler cannot know from an address passed as an argument.
WS_DEVICE u64 ws_add(u64* at, u64 value) {
  u64 found;
  asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(found) : "l"(at), "l"(value) : "memory");
  return found;
}
WS_DEVICE void ws_raise(u64* at, u64 value) {
  asm volatile("red.global.max.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}
// The value found, which is replaced where it is 0.
WS_DEVICE u64 ws_claim(u64* at, u64 value) { return atomicCAS(at, 0ull, value); }
// At a generic address, as it is now: another multiprocessor may have written it during the launch.
WS_DEVICE u64 ws_read(const u64* at) {
  u64 found;
  asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(found) : "l"(at) : "memory");
  return found;
}
WS_DEVICE void ws_fence() { __threadfence(); }
WS_DEVICE void ws_sleep() { __nanosleep(500); }
#else
#include <sched.h>

#define WS_INLINE inline
#define WS_DEVICE static inline
#define WS_SELDOM static inline
u32 ws_shuffle(u32 lanes, u32 value, u32 lane);
bool ws_all(u32 lanes, bool holds);
u32 ws_ballot(u32 lanes, bool holds);
u32 ws_equal(u32 lanes, u32 value);
WS_DEVICE u32 ws_first(u32 lanes) { return static_cast<u32>(__builtin_ctz(lanes)); }
WS_DEVICE u32 ws_count(u32 lanes) { return static_cast<u32>(__builtin_popcount(lanes)); }
WS_DEVICE u64 ws_add(u64* at, u64 value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
WS_DEVICE void ws_raise(u64* at, u64 value) {
  u64 found = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (found < value &&
         !__atomic_compare_exchange_n(at, &found, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
WS_DEVICE u64 ws_claim(u64* at, u64 value) {
  u64 found = 0;
  __atomic_compare_exchange_n(at, &found, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return found;
}
WS_DEVICE u64 ws_read(const u64* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
WS_DEVICE void ws_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
WS_DEVICE void ws_sleep() { sched_yield(); }
#endif

WS_DEVICE u64 ws_shuffle_wide(u32 lanes, u64 value, u32 lane) {
  return ws_shuffle(lanes, static_cast<u32>(value), lane) |
         static_cast<u64>(ws_shuffle(lanes, static_cast<u32>(value >> 32), lane)) << 32;
}

// The lanes that write together.
struct WsGroup {
  u32 lanes;
  u32 lane;    // this one
  u32 leader;  // the first
  u32 count;
  u32 rank;  // of this lane among them
};

WS_DEVICE WsGroup ws_group(u32 lanes, u32 lane) {
  return {lanes, lane, ws_first(lanes), ws_count(lanes), ws_count(lanes & ((1u << lane) - 1))};
}
