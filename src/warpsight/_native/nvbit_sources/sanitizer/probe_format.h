// What a probed launch shares with the device code of its probes: probes.cu, and what
// warpsight/sass/probes/ptx.py writes.
#pragma once

#define WS_MAPS 16    // of all probes of a request
#define WS_PROBES 32  // of a request

// Whose each copy of a map is.
#define WS_PER_GRID 0
#define WS_PER_BLOCK 1
#define WS_PER_WARP 2
#define WS_PER_THREAD 3

// In device memory, one for each probed launch. A map is a word that counts what found no place in it, then
// the words of each owner; owners count from the first block that is probed. All of it begins as zero.
struct WsProbe {
  unsigned long long pc;     // where the kernel begins
  unsigned long long bytes;  // of the kernel, in a graph: what runs elsewhere belongs to `next`; else 0
  const struct WsLaunch* next;
  unsigned int enabled;  // bit p: probe p is for this kernel
  unsigned int unused;
  unsigned long long* maps[WS_MAPS];
};
