// Warps, each a thread, write records of all sizes to one ring, and a thread drains it into an event file:
// nvbit_ring FILE WORDS WARPS RECORDS. What lanes hold is a function of warp, record and lane (value_of).
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lanes.h"
#include "nvbit/record.h"
#include "nvbit/ring.h"
#include "sanitizer/ring.h"

namespace {

constexpr u64 kZero = 0x7a65726f;
WsTool g_tool;
thread_local u32 t_warp, t_record;

u32 value_of(u32 place, u32 lane) {
  const u32 number = t_warp * 1000003 + t_record * 10007 + place * 101 + lane;
  return number * number * 2654435761u;  // no function that records are shorter for
}

// Of every four records: registers of which no two are alike, as many as there may be; some; an access in
// steps; one without.
void write(u32 lane) {
  WsEvent event = {};
  event.pc = t_record;
  event.block = t_warp;
  event.lanes = ~0u;
  const WsRing ring = {&g_tool};
  const u32 kind = t_record % 4;
  if (kind < 2) {
    u32 values[WS_REGISTERS_AT_ONCE];
    event.size = kind == 0 ? WS_REGISTERS_AT_ONCE : 1 + t_record / 4 % WS_REGISTERS_AT_ONCE;
    for (u32 i = 0; i < event.size; ++i) values[i] = value_of(i, lane);
    const u32 lanes = kind == 0 ? 0x7fffffffu : ~0u;
    if ((lanes >> lane & 1) != 0) ws_write_registers(ring, ws_group(lanes, lane), event, values);
    return;
  }
  event.kind = 3;
  event.size = 4;
  const WsGroup group = ws_group(~0u, lane);
  const u64 address = kind == 2 ? 0x1000ull * t_record + 4 * lane : value_of(0, lane);
  if (!ws_write_whole_access(ring, lane, event.launch, [&] { return event; }, address, 0, false))
    ws_write_access(ring, group, event, address, 0, false);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const u64 size = strtoull(argv[2], nullptr, 10);
  const u32 warps = static_cast<u32>(atoi(argv[3])), records = static_cast<u32>(atoi(argv[4]));
  std::vector<uint64_t> words(size);
  u64 head = 0, seen = 0;
  uint64_t tail = 0;
  g_tool.ring = reinterpret_cast<u64*>(words.data());
  g_tool.mask = size - 1;
  g_tool.head = &head;
  g_tool.tail = reinterpret_cast<const volatile u64*>(&tail);
  g_tool.tail_seen = &seen;
  g_tool.zero = kZero;
  warpsight::EventFile file;
  if (!file.create(argv[1], ~0ull)) return 1;
  warpsight::EventRing ring(0, words.data(), size - 1, &tail, kZero);
  std::atomic<u32> left{warps};  // warps that are not done
  std::vector<std::thread> threads;
  for (u32 warp = 0; warp < warps; ++warp)
    threads.emplace_back([warp, records, &left] {
      t_warp = warp;
      for (t_record = 0; t_record < records; ++t_record)
        run_warp(t_record % 4 == 0 ? 0x7fffffffu : ~0u, write);
      --left;
    });
  while (left != 0)
    if (ring.drain(&file) == 0) std::this_thread::yield();
  for (std::thread& thread : threads) thread.join();
  while (ring.drain(&file) > 0) {
  }
  ring.flush(&file);
  if (ring.stuck()) file.lose("stuck", 1);
  file.end();
  return 0;
}
