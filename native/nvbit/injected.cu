// What the NVBit tool injects before or after instructions: the lanes of a warp that are there write one
// record (tool_format.h) to a ring in host memory and wait while the ring is full, so nothing is lost; or
// they wait as a delay plan says.
#include <cstdarg>

#include "nvbit/record.h"
#include "nvbit/ring.h"
#include "nvbit/shapes.h"
#include "nvbit/tensor_maps.h"
#include "sanitizer/visit_patches.cuh"

namespace {

WS_DEVICE u32 lane_id() {
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

WS_DEVICE u64 shape_key(u64 launch) {
  const u32 shape[6] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z};
  return ws_shape_key(static_cast<u32>(launch), shape);
}

// Of a kernel of a graph.
WS_SELDOM u64 running_launch(const WsTool* tool, u64 launch) {
  return ws_running_launch(tool->shapes, shape_key(launch));
}

WS_DEVICE u64 launch_of(const WsTool* tool, u64 launch) {
  return (launch & WS_GRAPH) == 0 ? launch : running_launch(tool, launch);
}

// Whether this launch, block and warp are recorded: the same for all lanes of a warp.
WS_DEVICE bool chosen(const WsTool* tool, u64 launch) {
  if ((launch & WS_WANTED) == 0) return false;
  const u32 block = block_of_grid(), low = tool->block_low, high = tool->block_high, warps = tool->warps;
  return ((block >= low) & (block < high) & (warps >> (warp_of_block() & 31))) != 0;
}

// NVBit gives stack to what it injects, not to what that calls.
#define STACK_OF_CALLED(bytes) \
  unsigned char room[bytes];   \
  asm volatile("" : : "l"(room))

WS_DEVICE WsEvent event_at(u32 pc, u64 launch, u32 lanes) {
  WsEvent event = {};
  event.pc = pc;
  event.launch = static_cast<u32>(launch);
  event.lanes = lanes;
  event.block = block_of_grid();
  event.warp = warp_of_block();
  asm("mov.u32 %0, %%smid;" : "=r"(event.sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(event.time));
  return event;
}

constexpr u32 kGeneric = 0, kGlobal = 3, kShared = 4, kLocal = 5, kNoAccess = 255;

WS_DEVICE WsEvent access_at(u32 pc, u64 launch, u32 lanes, u32 kind, u32 what) {
  WsEvent event = event_at(pc, launch, lanes);
  event.kind = kind;
  event.flags = what >> 8 & 255;
  event.size = what >> 16 & 255;
  return event;
}

// The memory that a generic address is in, where it becomes the offset.
WS_DEVICE u32 memory_of(u64* address) {
  const void* const pointer = reinterpret_cast<const void*>(*address);
  const u32 kind = __isShared(pointer) ? kShared : __isLocal(pointer) ? kLocal : kGlobal;
  if (kind != kGlobal) *address &= 0xffffffull;
  return kind;
}

// An access of some lanes, of each to its own memory, with any addresses.
WS_SELDOM void record_access(const WsTool* tool, u32 kind, u64 launch, u32 pc, u32 what, u64 a, u64 b) {
  const u32 together = __activemask(), lane = lane_id();
  const bool generic = (what & 255) == kGeneric;
  for (u32 one = generic ? kGlobal : what & 255; one <= (generic ? kLocal : what & 255); ++one) {
    const u32 lanes = ws_ballot(together, kind == one);
    if ((lanes >> lane & 1) == 0) continue;
    const WsEvent event = access_at(pc, launch, lanes, one, what);
    ws_write_access(WsRing{tool}, ws_group(lanes, lane), event, a, b, (what >> 24 & 1) != 0);
  }
}

}  // namespace

// A warp of a kernel begins.
extern "C" __device__ __noinline__ void ws_nvbit_begin(int, u64 launch, u64 context) {
  if ((launch & WS_GRAPH) == 0) return;
  const u32 lanes = __activemask();
  if (lane_id() == ws_first(lanes)) {
    const u64 threads = 1ull * blockDim.x * blockDim.y * blockDim.z;
    const u64 blocks = 1ull * gridDim.x * gridDim.y * gridDim.z;
    ws_begin_warp(reinterpret_cast<const WsTool*>(context)->shapes, shape_key(launch),
                  blocks * ((threads + 31) / 32));
  }
  __syncwarp(lanes);
}

// `what`: flags | registers << 8. The registers' values follow.
extern "C" __device__ __noinline__ void ws_nvbit_registers(int guard, u64 launch, u64 context, u32 pc,
                                                           u32 what, ...) {
  STACK_OF_CALLED(128);
  const auto* tool = reinterpret_cast<const WsTool*>(context);
  launch = launch_of(tool, launch);
  if (!chosen(tool, launch)) return;
  const u32 together = __activemask(), lane = lane_id();
  const u32 guarded = ws_ballot(together, guard != 0);
  WsEvent event = event_at(pc, launch, together);
  event.flags = what & 255;
  event.size = what >> 8;
  if (guarded == 0 || event.size == 0) {
    if (event.flags == 0) ws_write_instruction(WsRing{tool}, ws_group(together, lane), event, guarded);
    return;
  }
  // Where records are left out, those of one instruction would not be together.
  if (guard == 0 || (tool->thins != 0 && event.flags > 1)) return;
  u32 values[WS_REGISTERS_AT_ONCE];
  va_list given;
  va_start(given, what);
  for (u32 i = 0; i < event.size && i < WS_REGISTERS_AT_ONCE; ++i) values[i] = va_arg(given, u32);
  va_end(given);
  ws_write_registers(WsRing{tool}, ws_group(guarded, lane), event, values);
}

// A memory access. `what`: kind | flags << 8 | bytes << 16 | 1 << 24 where there is a B. Kind 0: which memory
// a generic address is in is found here.
extern "C" __device__ __noinline__ void ws_nvbit_access(int guard, u64 launch, u64 context, u32 pc, u32 what,
                                                        u64 a, u64 b) {
  STACK_OF_CALLED(256);
  const auto* tool = reinterpret_cast<const WsTool*>(context);
  launch = launch_of(tool, launch);
  if (!chosen(tool, launch)) return;
  const u32 usual = (what & 255) == kGeneric ? kGlobal : what & 255;
  const u32 kind = guard == 0 ? kNoAccess : (what & 255) == kGeneric ? memory_of(&a) : usual;
  if (ws_everywhere(kind == usual)) {
    const auto describe = [=] { return access_at(pc, launch, ~0u, usual, what); };
    if (ws_write_whole_access(WsRing{tool}, lane_id(), static_cast<u32>(launch), describe, a, b,
                              (what >> 24 & 1) != 0))
      return;
  }
  record_access(tool, kind, launch, pc, what, a, b);
}

// A copy by the TMA. `what`: registers | flags << 8 | the place among them of its tensor map's address << 16,
// where the flags say that it names one. The registers' values follow.
extern "C" __device__ __noinline__ void ws_nvbit_tensor_copy(int guard, u64 launch, u64 context, u32 pc,
                                                             u32 what, ...) {
  STACK_OF_CALLED(256);
  const auto* tool = reinterpret_cast<const WsTool*>(context);
  launch = launch_of(tool, launch);
  if (!chosen(tool, launch)) return;
  const u32 lanes = ws_ballot(__activemask(), guard != 0);
  if (guard == 0) return;
  WsEvent event = event_at(pc, launch, lanes);
  event.flags = what >> 8 & 255;
  event.size = what & 255;
  u32 values[WS_REGISTERS_AT_ONCE];
  u64 address = 0;
  va_list given;
  va_start(given, what);
  for (u32 i = 0; i < event.size && i < WS_REGISTERS_AT_ONCE; ++i) {
    values[i] = va_arg(given, u32);
    const u32 half = i - (what >> 16);
    if (half < 2) address |= static_cast<u64>(values[i]) << 32 * half;
  }
  va_end(given);
  const WsGroup group = ws_group(lanes, lane_id());
  if ((event.flags & WS_TENSOR_MAP) == 0) {
    ws_write_tensor_copy(WsRing{tool}, group, event, 0, values);
    return;
  }
  const WsTensorMap map = ws_read_map(address);
  const u64 key = ws_map_key(map);
  if (!ws_write_tensor_copy(WsRing{tool}, group, event, key, values)) return;
  const u32 fresh = group.lane == group.leader && ws_new_map(tool->maps, key) ? 1 : 0;
  if (ws_shuffle(lanes, fresh, group.leader) != 0)
    ws_write_tensor_map(WsRingOfMaps{{tool}}, group, event, key, map);
}

// A warp comes to a point of a delay plan. `launch`: a WsLaunch; none: nothing waits.
extern "C" __device__ __noinline__ void ws_nvbit_visit(int guard, u64 launch, u64 context, u32 pc) {
  STACK_OF_CALLED(384);
  if (guard == 0) return;
  launch = launch_of(reinterpret_cast<const WsTool*>(context), launch);
  ws_visit(reinterpret_cast<void*>(launch), pc, WS_INSTRUCTION_KIND);
}
