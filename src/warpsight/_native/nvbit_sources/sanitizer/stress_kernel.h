// What a stressing kernel is asked for, shared by stress.cu and memory_stress.cpp.
#pragma once

// What a warp does at each of four steps, over and over: two bits of `pattern` each.
#define WS_STRESS_LOAD 0
#define WS_STRESS_STORE 1
#define WS_STRESS_STORE_SAME 2  // all warps of a line write one word
#define WS_STRESS_ATOMIC 3

struct WsStress {
  unsigned long long ns;  // how long
  unsigned int seed;
  unsigned int lines;   // of 128 bytes, among which warps choose
  unsigned int stride;  // words: lines are at multiples
  unsigned int mask;    // words of the memory less one, without the last line's
  unsigned int pattern;
};
