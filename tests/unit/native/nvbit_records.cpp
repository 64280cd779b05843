// Writes records of the NVBit tool as a warp would: each lane is a context of its own, and they meet where
// lanes exchange values. Cases come on standard input, records go to standard output.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ucontext.h>

#include "nvbit/record.h"

namespace {

ucontext_t g_main, g_lanes[32];
char g_stacks[32][1 << 16];
u32 g_lane, g_slots[2][32], g_turn[32];
bool g_done[32];

// What the lane gives, and where all of them have given theirs, what is there.
const u32* meet(u32 value) {
  u32* const slots = g_slots[g_turn[g_lane]++ % 2];
  slots[g_lane] = value;
  swapcontext(&g_lanes[g_lane], &g_main);
  return slots;
}

template <class Function>
u32 gather(u32 lanes, u32 value, Function function) {
  const u32* const slots = meet(value);
  u32 found = 0;
  for (u32 lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) != 0 && function(slots[lane])) found |= 1u << lane;
  return found;
}

struct Case {
  u32 kind, lanes, guard, count, with_b, flags;
  std::vector<u64> values;  // count (or A and B) times 32
};

Case g_case;
std::vector<u64> g_words;
std::vector<u32> g_lengths;

struct Ring {
  u64 reserve(const WsGroup& group, u32, u32 words) const {
    if (group.lane == group.leader) {
      g_lengths.push_back(words);
      g_words.resize(g_words.size() + words, ~0ull);
    }
    const u64 at = g_words.size() - words;
    ws_shuffle(group.lanes, 0, group.leader);  // all go on together
    return group.lane == group.leader ? at : g_words.size() - words;
  }
  void store(u64 at, u64 word) const {
    if (g_words.at(at) != ~0ull) abort();  // a word is written once
    g_words[at] = word;
  }
};

void lane_runs() {
  const u32 lane = g_lane;
  WsEvent event = {};
  event.pc = 0x1230;
  event.kind = g_case.kind;
  event.launch = 7;
  event.block = 5;
  event.warp = 3;
  event.sm = 77;
  event.time = 0x123456789abcdefull;
  event.lanes = g_case.lanes;
  event.flags = g_case.flags;
  if (g_case.kind == WS_REGISTERS_KIND) {
    event.size = g_case.count;
    u32 values[WS_REGISTERS_AT_ONCE];
    for (u32 i = 0; i < g_case.count; ++i) values[i] = static_cast<u32>(g_case.values[i * 32 + lane]);
    ws_write_registers(Ring{}, ws_group(g_case.guard, lane), event, values);
  } else if (g_case.kind == WS_INSTRUCTION_KIND) {
    ws_write_instruction(Ring{}, ws_group(g_case.lanes, lane), event, g_case.guard);
  } else {
    event.size = 4;
    const u64 b = g_case.with_b != 0 ? g_case.values[32 + lane] : 0;
    ws_write_access(Ring{}, ws_group(g_case.lanes, lane), event, g_case.values[lane], b, g_case.with_b != 0);
  }
  g_done[lane] = true;
}

void run(u32 lanes) {
  for (u32 lane = 0; lane < 32; ++lane) {
    g_done[lane] = (lanes >> lane & 1) == 0;
    g_turn[lane] = 0;
    getcontext(&g_lanes[lane]);
    g_lanes[lane].uc_stack.ss_sp = g_stacks[lane];
    g_lanes[lane].uc_stack.ss_size = sizeof g_stacks[lane];
    g_lanes[lane].uc_link = &g_main;
    makecontext(&g_lanes[lane], lane_runs, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (g_lane = 0; g_lane < 32; ++g_lane) {
      if (g_done[g_lane]) continue;
      any = true;
      swapcontext(&g_main, &g_lanes[g_lane]);
    }
  }
}

}  // namespace

u32 ws_shuffle(u32, u32 value, u32 lane) { return meet(value)[lane]; }
u32 ws_ballot(u32 lanes, bool holds) {
  return gather(lanes, holds ? 1 : 0, [](u32 slot) { return slot != 0; });
}
bool ws_all(u32 lanes, bool holds) { return ws_ballot(lanes, holds) == lanes; }
u32 ws_equal(u32 lanes, u32 value) {
  return gather(lanes, value, [value](u32 slot) { return slot == value; });
}

int main() {
  u32 head[6];
  while (fread(head, sizeof head, 1, stdin) == 1) {
    g_case = {head[0], head[1], head[2], head[3], head[4], head[5], {}};
    g_case.values.resize(32 * (g_case.count + g_case.with_b));
    if (fread(g_case.values.data(), sizeof(u64), g_case.values.size(), stdin) != g_case.values.size())
      return 1;
    run(g_case.kind == WS_REGISTERS_KIND ? g_case.guard : g_case.lanes);
  }
  const u64 counts[2] = {g_lengths.size(), g_words.size()};
  fwrite(counts, sizeof counts, 1, stdout);
  fwrite(g_lengths.data(), sizeof(u32), g_lengths.size(), stdout);
  fwrite(g_words.data(), sizeof(u64), g_words.size(), stdout);
  return 0;
}
