// The records of an event trace, shared by the device patches (patches.cu) and the library that drains them.
//
// A record is 4 words of 64 bits and what its encodings add:
//
//   word 0   lanes (32 bits) | kind (8) | words of the record (8) | encodings (8) | bytes accessed (8)
//   word 1   low half of the program counter (32) | block of the grid, x fastest (32)
//   word 2   launch (32) | warp of the block (8) | flags (8) | multiprocessor (16)
//   word 3   %globaltimer, ns
//
// Then come operand A, operand B and the values, each as its encoding says. Word 0 is written last and is
// never zero, so a reader that finds zero there waits. `kind` is the Sanitizer's number of the instruction
// class. warpsight/formats/events/records.py reads this layout.
#pragma once

#include "sanitizer/delay_rule.h"
#include "sanitizer/race_layout.h"

#define WS_EVENT_HEADER_WORDS 4
// The most: a header, the lanes of a predicate, codes, and 12 registers of 32 lanes (nvbit/tool_format.h).
#define WS_EVENT_LARGEST 198

// Encodings: bits 0-1 operand A, 2-3 operand B, 4-5 values.
#define WS_NONE 0
#define WS_AFFINE \
  1  // one word: base in bits 0-47, step from active lane to active lane in bits 48-63, signed
#define WS_OFFSETS 2     // base word, then a signed 32-bit offset for each active lane, two to a word
#define WS_LIST 3        // a word for each active lane
#define WS_VALUE_ONE 1   // one value for all lanes: 1 word, or 2 for 16 bytes
#define WS_VALUE_EACH 2  // 4 bytes each (two to a word) up to 4 bytes, otherwise 8 or 16

// Linear addresses: the base in bits 0-47, then 16 or 24 bits, signed for sums, for each bit of the lane's
// number. Bits 6-7 of the encodings say it of operand A, whose bits 0-1 are then 0 for sums and 1 for
// exclusive or; bits 4-5 and 2-3 say it of operand B of a copy, which has no values.
#define WS_LINEAR_16 1  // 2 words
#define WS_LINEAR_24 2  // 3 words

// What operand A and B are is said per kind in records.py. Flags of memory accesses are the Sanitizer's.

#define WS_PC_RANGES 4

// What patches do with an instruction.
#define WS_RECORD 0  // record what it does
#define WS_NOTE 1    // record that it exists, once
#define WS_DELAY 2   // wait before it, and record how long (kind WS_DELAY_KIND)
#define WS_CHECK 3   // look for races (race_layout.h)
#define WS_PROBE 4   // call the user's probes, which take the place of ws_record (probe_format.h)
#define WS_STRESS 5  // nothing: no code is patched, and memory is hammered (memory_stress.h)

#define WS_DELAY_KIND 64  // no class of the Sanitizer's: operand A is the delay in ns, B the occurrence
#define WS_UNCOUNTED 0xffffffffu  // the occurrence where the launch is too large to count them
#define WS_NOTES (1u << 18)       // places for notes: a power of two

// An instruction before which warps wait.
struct WsPoint {
  unsigned int pc;      // low half of the address; a table of them ascends by it, then by the kind
  unsigned int kind;    // the Sanitizer's class
  unsigned int number;  // its number in random numbers
  unsigned int place;   // among the context's points: where its occurrences are counted
};

// low <= block < high; a table of them ascends.
struct WsBlocks {
  unsigned int low;
  unsigned int high;
};

struct WsProbe;

// A patch's argument (userdata): one for each recorded launch, in device memory.
struct WsLaunch {
  unsigned long long* ring;                 // words, a power of two of them, in host memory
  unsigned long long mask;                  // words of the ring less one
  unsigned long long* head;                 // device: words handed out so far
  const volatile unsigned long long* tail;  // host: words drained so far
  unsigned long long zero;                 // replaces a word of zero: random, so that no other word equals it
  volatile unsigned long long* tail_seen;  // device: the tail as it was last looked at
  unsigned long long* counter;  // device: records that passed the other conditions, for `every` and `first`
  unsigned long long first;     // records of this launch at most
  unsigned long long address_low;  // lanes whose address is outside of low <= address < high are left out
  unsigned long long address_high;
  unsigned long long pc[2 * WS_PC_RANGES];  // start and end of each range
  unsigned int pc_ranges;
  unsigned int launch;
  unsigned int every;
  unsigned int warps;      // bit w: warp w of a block is recorded
  unsigned int block_low;  // blocks low <= block < high
  unsigned int block_high;
  unsigned int values;  // whether values are recorded
  unsigned int mode;    // WS_RECORD, WS_NOTE, WS_DELAY or WS_CHECK

  unsigned long long* notes;  // WS_NOTE: a hash table of the instructions noted so far
  // WS_DELAY. A counter of occurrences is the launch's `stamp` in its high half and the count in the low one.
  WsRule rule;
  const WsPoint* points;
  const WsBlocks* blocks;              // none: all
  unsigned long long* occurrences;     // by (block, warp, place of the point)
  unsigned long long occurrence_size;  // counters there
  unsigned int point_count;
  unsigned int places;  // points that are counted for a warp
  unsigned int block_count;
  unsigned int stamp;
  unsigned int index;       // of the launch among those of its kernel
  unsigned int ranks;       // bit r: the block of rank r of a cluster waits
  unsigned int cluster[3];  // blocks of a cluster
  unsigned int unused;

  const WsRace* race;           // WS_CHECK
  const struct WsProbe* probe;  // WS_PROBE
};

#define WS_PLACES \
  (1u << 14)  // launches of kernels with compiled checks that may run at a time: a power of two

// Such a kernel finds its launch by the number of its grid, of which this is the low part's place.
struct WsPlace {
  unsigned long long grid;
  const WsLaunch* launch;
};
