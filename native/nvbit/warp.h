// What the lanes of a warp that write a record together do with each other. The tests compile it for the
// host, where a thread stands for a lane.
#pragma once

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#ifdef __CUDACC__
#define WS_INLINE __device__ __forceinline__
#define WS_DEVICE static WS_INLINE
WS_DEVICE u32 ws_shuffle(u32 lanes, u32 value, u32 lane) { return __shfl_sync(lanes, value, lane); }
WS_DEVICE bool ws_all(u32 lanes, bool holds) { return __all_sync(lanes, holds); }
WS_DEVICE u32 ws_ballot(u32 lanes, bool holds) { return __ballot_sync(lanes, holds); }
WS_DEVICE u32 ws_equal(u32 lanes, u32 value) { return __match_any_sync(lanes, value); }
WS_DEVICE u32 ws_first(u32 lanes) { return static_cast<u32>(__ffs(static_cast<int>(lanes))) - 1; }
WS_DEVICE u32 ws_count(u32 lanes) { return static_cast<u32>(__popc(lanes)); }
#else
#define WS_INLINE inline
#define WS_DEVICE static inline
u32 ws_shuffle(u32 lanes, u32 value, u32 lane);
bool ws_all(u32 lanes, bool holds);
u32 ws_ballot(u32 lanes, bool holds);
u32 ws_equal(u32 lanes, u32 value);
WS_DEVICE u32 ws_first(u32 lanes) { return static_cast<u32>(__builtin_ctz(lanes)); }
WS_DEVICE u32 ws_count(u32 lanes) { return static_cast<u32>(__builtin_popcount(lanes)); }
#endif

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
