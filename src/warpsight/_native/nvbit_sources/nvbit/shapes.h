// Which launch a kernel of a graph is. What NVBit gives to a function in a graph holds for each of its nodes
// and replays, so it says only which function that is. Launches of one function with one grid and block come
// one after another, as they were described (graph_launches.h), and each begins with as many warps as it
// has. The tests compile this for the host.
#pragma once

#include "nvbit/tool_format.h"
#include "nvbit/warp.h"

// The place of a key; WS_SHAPES where there is none.
WS_DEVICE u32 ws_find_shape(const volatile u64* keys, u64 key) {
  for (u32 probe = 0; probe < WS_SHAPE_PROBES; ++probe) {
    const u32 at = static_cast<u32>(key + probe) & (WS_SHAPES - 1);
    if (keys[at] == key) return at;
  }
  return WS_SHAPES;
}

// A warp of a launch with so many begins; called by one lane of each, before anything else. A launch that the
// host did not describe is taken for the last that it did.
WS_DEVICE void ws_begin_warp(const WsShapes& shapes, u64 key, u64 warps) {
  const u32 at = ws_find_shape(shapes.keys, key);
  if (at == WS_SHAPES) return;
  const u64 turn = ws_add(shapes.warps + at, 1) / warps, count = shapes.counts[at];
  const u64 launch = turn < count ? turn : count - 1;
  shapes.running[at] = shapes.launches[at * WS_SHAPE_LAUNCHES + (launch & (WS_SHAPE_LAUNCHES - 1))];
  ws_fence();
  shapes.own_keys[at] = key;
  shapes.begun[at] = turn + 1;
}

// What the code of the launch that runs now is given; 0 where that is not known.
WS_DEVICE u64 ws_running_launch(const WsShapes& shapes, u64 key) {
  const u32 at = ws_find_shape(shapes.own_keys, key);
  return at != WS_SHAPES ? shapes.running[at] : 0;
}
