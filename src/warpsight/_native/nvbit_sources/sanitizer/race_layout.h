// The state of race detection on the device, shared by the patches (check_patches.cuh) and the library.
//
// Memory has a shadow: for each word of 4 bytes the last write and the last read, 64 bits each. A warp counts
// its releases and acquires, its "epochs"; an entry's access is before another one when the other's warp
// knows of that epoch. What warps of a block know of each other is a vector clock; across blocks it is one
// number, the clock of releases (race_order.h).
//
// An access, as the shadow holds it:
//
//   bits 0-3    bytes of the word               bits 22-26  lane
//   bits 4-5    reads: by whom else (kSeveral)  bits 27-48  row of its warp
//   bits 6-21   epoch of its warp               bits 49-51  how often rows were handed out
//   bit  52     several lanes, each its part    bits 53-63  site: the instruction's number in its kernel
//
// Where a whole warp accesses neighboring words from the start of a line of 128 bytes on, one entry for the
// line stands for its words; its "lane" is the logarithm of the lines that the warp accessed. A word that was
// accessed in any other way has entries of its own.
#pragma once

#define WS_RACE_KIND 68       // a record: a race (race_shadow.h says the operands)
#define WS_UNWATCHED_KIND 69  // a record: accesses that were not looked at

#define WS_SITES 2048u        // 0 is for instructions without a number, which are not looked at
#define WS_RACE_FUNCTIONS 16  // of a kernel: itself, and functions that it may call
#define WS_ROWS (1u << 22)    // warps of launches, used round-robin
#define WS_ROW_NUMBERS \
  0x1ffffffu              // of a row as accesses carry it: its place, and how often it was handed out
#define WS_PAGE_SHIFT 20  // bytes of a page of global memory
#define WS_PAGE_AGE 32u   // launches after which a page that was not touched goes to another
#define WS_BLOCK_WORDS (1u << 24)  // words of shared memory that have a shadow
#define WS_PAGE_WORDS (1u << (WS_PAGE_SHIFT - 2))
#define WS_LINE_SHIFT 7  // bytes of a line
#define WS_LINE_WORDS \
  4u  // of its state: the last write, the launch in which words have entries (twice), the last read
#define WS_PAGE_LINES (1u << (WS_PAGE_SHIFT - WS_LINE_SHIFT))
#define WS_PAGE_ENTRIES \
  (2u * WS_PAGE_WORDS + WS_LINE_WORDS * WS_PAGE_LINES)  // 64 bits each, of a page's shadow
#define WS_SEEN (1u << 14)                              // places of the table of races
#define WS_SLOTS 8192u                                  // blocks that have a state at a time
#define WS_MBARRIER_SLOTS 1024u                         // of them, those with mbarriers
#define WS_MBARRIERS 28u                                // of a block that are followed
#define WS_COMPONENTS 64u    // of a clock: 32 warps, 28 mbarriers, and of the clock of releases:
#define WS_KNOWN_BLOCK 60u   // what was acquired within the block
#define WS_KNOWN_DEVICE 61u  // and from other blocks
#define WS_FOUND_DEVICE 62u  // what the next fence acquires, as a flag was found that another block wrote
#define WS_LARGEST_EPOCH 0xffffu

// What is known of an instruction before it runs, one word each (code_facts.h):
//   bits 0-10   site, 0 where it accesses no memory
//   bits 11-12  scope of a strong access: 0 none, 1 block, 2 device
//   bit 13      an atomic
//   bits 14-15  scope of a fence between it and the instructions before it that are patched: releases
//   bits 16-17  the same: acquires
//   bit 18      a fence of the async proxy there
//   bits 19-20  copies: 1 by its own thread (cp.async), 2 in bulk
//   bits 21-30  named barriers 1-10 that the warp arrives at behind it without waiting
//   bit 31      a barrier of the warp between it and the instructions before it that are patched
#define WS_SITE(facts) ((facts) & 2047u)
#define WS_SCOPE(facts) ((facts) >> 11 & 3u)
#define WS_ATOMIC(facts) ((facts) >> 13 & 1u)
#define WS_RELEASES(facts) ((facts) >> 14 & 3u)
#define WS_ACQUIRES(facts) ((facts) >> 16 & 3u)
#define WS_PROXY_FENCE(facts) ((facts) >> 18 & 1u)
#define WS_COPIES(facts) ((facts) >> 19 & 3u)
#define WS_ARRIVES(facts) ((facts) >> 21 & 1023u)

enum WsRaceReason {
  WS_ORDERED = 0,
  WS_LANES = 1,    // two lanes of a warp
  WS_WARPS = 2,    // two warps of a block
  WS_CLUSTER = 3,  // two blocks of a cluster
  WS_BLOCKS = 4,   // two blocks
  WS_NARROW = 5,   // atomics or strong accesses whose scope is one block, from two
  WS_BULK = 6,     // a bulk copy that was not waited for
  WS_COPY = 7,     // cp.async that was not waited for
  WS_PROXY = 8,    // no fence between a write and a bulk copy that reads it
};

enum WsUnwatched {
  WS_NO_SHADOW = 0,  // no memory for the shadow
  WS_MANY_WARPS,     // of a launch
  WS_MANY_EPOCHS,    // of a warp
  WS_SLOT_LOST,      // the state of a block was taken by a later one
  WS_FAR_COPY,       // bulk copies to other blocks of a cluster
  WS_NO_SITE,        // accesses by instructions that the library did not find or number
  WS_CAUSES
};

struct WsFunction {
  unsigned long long pc;
  unsigned int bytes;
  unsigned int first;  // word of its first instruction among the facts
};

// What stays of a warp while its launch runs: others look at it.
struct WsRow {
  unsigned int tag;            // the launch that uses it
  unsigned int fenced;         // epochs up to it are before a fence of its own or of who knew of them
  unsigned int fenced_device;  // the same for fences that reach other blocks
  unsigned int fenced_before;  // that of the fence before the last
  unsigned int fenced_at;      // clock of releases at the last
  unsigned int arrived[2];     // epochs at its last arrivals at the cluster's barrier, by their parity
  unsigned int copied;         // epochs up to it: copies by cp.async are done
  unsigned int proxied;        // epochs up to it are before a fence of the async proxy
  unsigned int unused[6];
};

// What only a running warp needs; in the slot of its block.
struct WsWarp {
  unsigned int stamp;  // whose it is (stamp_of)
  unsigned int epoch;
  unsigned int shared_shift;   // logarithm of the words of shared memory that a block has at most
  unsigned int warp_epoch;     // that it had at its last barrier of the warp
  unsigned int acquired;       // at its last acquire
  unsigned int proxied;        // at its last fence of the async proxy
  unsigned int cluster_lanes;  // lanes that have arrived at the cluster's barrier in this turn
  unsigned int cluster_arrivals;
  unsigned int cluster_waits;
  unsigned int barrier_lanes;  // lanes that have arrived at the last barrier
  unsigned int commits;
  unsigned int committed[4];  // epochs at the last groups of cp.async
  unsigned char turns[16];    // of each named barrier
  unsigned int unused[1];
  unsigned int known[WS_COMPONENTS];
};

// Words of barriers carry the number of their block in the upper half: what another block left is not read.
struct WsMbarrier {
  unsigned long long address;
  unsigned long long arrivals;
  unsigned long long held[4][WS_COMPONENTS];  // by phase
};
struct WsBarrier {
  unsigned long long held[2][WS_COMPONENTS];  // by turn
};
// A block's state.
struct WsSlot {
  WsWarp warps[32];
  WsBarrier barriers[16];
};

// A launch, as the patches find it; what every access needs comes first.
struct WsRace {
  unsigned int pc;            // low half, of the kernel
  unsigned int bytes;         // of its code
  const unsigned int* facts;  // the kernel's come first
  unsigned int first_row;     // of its first warp, counted on from launch to launch
  unsigned int warps;         // of a block
  WsSlot* slots;
  unsigned int block_base;           // number of its first block among all
  unsigned int tag;                  // of the launch, not 0
  unsigned long long* pages;         // pages of memory that have a shadow (race_pages.h)
  unsigned long long* shadow;        // of each page the last writes of words, their last reads, then lines
  unsigned int page_shift;           // 32 less the bits of a place among `pages`
  unsigned int watched;              // warps of the grid that have rows
  unsigned long long* block_shadow;  // of shared memory the last writes, then the last reads
  unsigned int alone;                // no clusters
  unsigned int copies;               // there are copies by the async proxies
  unsigned int function_count;
  WsFunction functions[WS_RACE_FUNCTIONS];  // the kernel, and those that it may call
  WsRow* rows;
  WsMbarrier* mbarriers;
  unsigned long long* seen;       // races: key and count
  unsigned long long* unwatched;  // counts by cause
  unsigned int* clock;            // of releases
  const unsigned int* site_pcs;   // low halves, by site
  const unsigned int* site_facts;
  unsigned int kernel;  // number of the code
  unsigned int has_mbarriers;
  unsigned int phases;   // mbarriers count as sm_90 lays them out
  unsigned int one_way;  // bit n: warps arrive at named barrier n without waiting
  unsigned int grid[3];
  unsigned int cluster[3];
};
