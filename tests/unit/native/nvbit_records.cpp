// Writes records of the NVBit tool as a warp would. Cases come on standard input, records go to standard
// output.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lanes.h"
#include "nvbit/record.h"
#include "nvbit/tensor_maps.h"

namespace {

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

void write(u32 lane) {
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
  } else if (g_case.kind == WS_TENSOR_COPY_KIND) {
    event.size = g_case.count;
    u32 values[WS_REGISTERS_AT_ONCE];
    for (u32 i = 0; i < g_case.count; ++i) values[i] = static_cast<u32>(g_case.values[i * 32 + lane]);
    const u64 key = g_case.with_b != 0 ? g_case.values[32 * g_case.count] : 0;
    ws_write_tensor_copy(Ring{}, ws_group(g_case.lanes, lane), event, key, values);
  } else if (g_case.kind == WS_TENSOR_MAP_KIND) {
    u64 held[WS_TENSOR_MAP_WORDS];
    for (u32 i = 0; i < WS_TENSOR_MAP_WORDS; ++i) held[i] = g_case.values[32 * i];
    const WsTensorMap map = ws_read_map(reinterpret_cast<u64>(held));
    ws_write_tensor_map(Ring{}, ws_group(g_case.lanes, lane), event, ws_map_key(map), map);
  } else {
    event.size = 4;
    const u64 b = g_case.with_b != 0 ? g_case.values[32 + lane] : 0;
    const WsGroup group = ws_group(g_case.lanes, lane);
    if (g_case.lanes == ~0u &&
        ws_write_whole_access(
            Ring{}, lane, event.launch, [&] { return event; }, g_case.values[lane], b, g_case.with_b != 0))
      return;
    ws_write_access(Ring{}, group, event, g_case.values[lane], b, g_case.with_b != 0);
  }
}

}  // namespace

int main() {
  u32 head[6];
  while (fread(head, sizeof head, 1, stdin) == 1) {
    g_case = {head[0], head[1], head[2], head[3], head[4], head[5], {}};
    g_case.values.resize(32 * (g_case.count + g_case.with_b));
    if (fread(g_case.values.data(), sizeof(u64), g_case.values.size(), stdin) != g_case.values.size())
      return 1;
    run_warp(g_case.kind == WS_REGISTERS_KIND ? g_case.guard : g_case.lanes, write);
  }
  const u64 counts[2] = {g_lengths.size(), g_words.size()};
  fwrite(counts, sizeof counts, 1, stdout);
  fwrite(g_lengths.data(), sizeof(u32), g_lengths.size(), stdout);
  fwrite(g_words.data(), sizeof(u64), g_words.size(), stdout);
  return 0;
}
