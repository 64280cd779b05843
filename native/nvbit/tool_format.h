// What the NVBit tool's host side and the functions that it injects (injected.cu) agree on. Records are those
// of sanitizer/event_format.h; the two kinds of our own, and the encodings of registers, are here.
//
//   instruction   a warp executed an instruction
//   registers     the same, with values of registers: `flags` bit 0 says after it, else before; bits 1-7
//   which
//                 part of its registers this is; `bytes accessed` is how many registers the part has
//
// Operand A of both are the lanes whose guard predicate holds, where those are not all of the record's lanes.
// Of a register record there follow a word of codes, 4 bits for each register, then units of 32 bits, two to
// a word, of all registers but those with WS_REGISTER_EACH, and then the words of these.
// warpsight/formats/events/registers.py reads them.
//
//   tensor copy   a warp executed an instruction of the TMA. After the header come the key of its tensor map
//                 (zero if it names none) and the uniform registers that its operands name or begin with, as
//                 tensor_copies.h says, two to a word; `bytes accessed` is how many
//   tensor map    after the header a key and the map's 128 bytes: once for all copies with this content
//
// warpsight/formats/events/tensor_copies.py reads these.
#pragma once

#include "sanitizer/event_format.h"

#define WS_INSTRUCTION_KIND 66
#define WS_REGISTERS_KIND 67
#define WS_REGISTERS_AT_ONCE 12  // of a record
#define WS_TENSOR_COPY_KIND 70
#define WS_TENSOR_MAP_KIND 71
#define WS_TENSOR_MAP 1  // flag of a copy: it names a tensor map
#define WS_TENSOR_MAP_WORDS 16
#define WS_TENSOR_MAPS 4096  // that are recorded once each: a power of two
#define WS_TENSOR_MAP_PROBES 16

// Values of a register in the lanes whose guard predicate holds.
#define WS_REGISTER_ZERO 0
#define WS_REGISTER_ONE 1     // one value: a unit
#define WS_REGISTER_AFFINE 2  // from lane to lane a step: the first value, the step
#define WS_REGISTER_ADD 3  // base and a unit for each bit of the lane's number: the sum of those that are set
#define WS_REGISTER_XOR 4  // the same with exclusive or
#define WS_REGISTER_FEW 4  // + p, p from 1 to 4: 2^p values, then p planes of each lane's number among them
#define WS_REGISTER_EACH 9  // a unit for each lane, in words of their own

// Bits of a launch's argument: the launch's number in the low half, and this bit if the launch is recorded.
#define WS_WANTED (1ull << 32)

// In a launch's argument: a kernel of a graph; the low half identifies the function.
#define WS_GRAPH (1ull << 63)
#define WS_SHAPES 512           // functions of graphs, each with a grid and block: a power of two
#define WS_SHAPE_LAUNCHES 1024  // of one of them that may wait to be run: a power of two
#define WS_SHAPE_PROBES 16

static_assert(WS_EVENT_HEADER_WORDS + 2 + 16 * WS_REGISTERS_AT_ONCE <= WS_EVENT_LARGEST,
              "a record of registers is no larger than a reader takes");

// The launches of graphs' kernels (graph_launches.h), each by function, grid and block.
struct WsShapes {
  const volatile unsigned long long* keys;      // host; 0: free
  const volatile unsigned long long* counts;    // host: launches so far
  const volatile unsigned long long* launches;  // host: what their code is given, WS_SHAPE_LAUNCHES for each
  volatile unsigned long long* begun;           // host: launches that have begun, as reported by the device
  unsigned long long* warps;                    // device: warps that have begun
  volatile unsigned long long* own_keys;        // device: those that have begun
  volatile unsigned long long* running;         // device: the argument of the code that runs now
};

// In device memory, one for each context.
struct WsTool {
  unsigned long long* ring;                 // words, a power of two of them, in host memory
  unsigned long long mask;                  // words of the ring less one
  unsigned long long* head;                 // device: words handed out so far
  const volatile unsigned long long* tail;  // host: words drained so far
  volatile unsigned long long* tail_seen;   // device: the tail as it was last looked at
  unsigned long long zero;                  // represents a word of zero
  unsigned long long* counters;  // of records by launch, modulo their number: its number in the high half
  unsigned long long first;      // records of a launch at most
  unsigned long long* maps;      // device: keys of the tensor maps recorded so far, 0 where a place is free
  unsigned int counter_mask;
  unsigned int every;
  unsigned int warps;  // bit w: warp w of a block
  unsigned int block_low;
  unsigned int block_high;
  unsigned int thins;  // whether `every` or `first` leave records out
  WsShapes shapes;
};

// Never 0. `shape`: grid and block.
WS_BOTH unsigned long long ws_shape_key(unsigned int function, const unsigned int (&shape)[6]) {
  unsigned long long key = (function + 1ull) * 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < 6; ++i) {
    key ^= key >> 29;
    key = (key ^ shape[i]) * 0x9e3779b97f4a7c15ull;
  }
  key ^= key >> 32;
  return key | 1ull << 63;
}
