// The patches that look for races while kernels run.
#pragma once

#include "sanitizer/check_access.cuh"

extern "C" __device__ __noinline__ int ws_check_shared(void* userdata, u64 pc, u64 address, u32 size,
                                                       u32 flags) {
  return check_shared(userdata, FactsAt{pc}, address, size, flags);
}

extern "C" __device__ __noinline__ int ws_check_global(void* userdata, u64 pc, u64 address, u32 size,
                                                       u32 flags) {
  return check_global(userdata, FactsAt{pc}, address, size, flags);
}

extern "C" __device__ __noinline__ int ws_check_other(void* userdata, u64 pc, u32 what, u64 address,
                                                      u32 count) {
  return check_other(userdata, FactsAt{pc}, what, address, count);
}

extern "C" __device__ __noinline__ int ws_check_copy(void* userdata, u64 pc, u32 kind, u64 global, u32 shared,
                                                     u32 size, u32 barrier) {
  return check_copy(userdata, FactsAt{pc}, kind, global, shared, size, barrier);
}

extern "C" __device__ __noinline__ int ws_check_order(void* userdata, u64 pc, u32 kind, u32 flags, u64 a,
                                                      u32 b) {
  return check_order(userdata, FactsAt{pc}, kind, flags, a, b);
}

PATCH ws_check_3(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void*) {
  ws_check_global(userdata, pc, reinterpret_cast<u64>(address), size, flags);
  return without_predicates();
}

PATCH ws_check_4(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void*) {
  ws_check_shared(userdata, pc, reinterpret_cast<u64>(address), size, flags);
  return without_predicates();
}

PATCH ws_check_17(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void*) {
  ws_check_other(userdata, pc, 17 | (flags & 255) << 8 | size << 16, reinterpret_cast<u64>(address), 0);
  return without_predicates();
}

PATCH ws_check_19(void* userdata, u64 pc, u32 address, u32 size, u32 flags, u32 count, const void*) {
  return ws_check_other(userdata, pc, 19 | (flags & 255) << 8 | size << 16, address, count);
}

PATCH ws_check_14(void* userdata, u64 pc, void* source, u32 target, u32 size) {
  return ws_check_copy(userdata, pc, 14, reinterpret_cast<u64>(source), target, size, 0);
}

PATCH ws_check_30(void* userdata, u64 pc, u64 source, u32 target, u32 barrier, u32 data, u32) {
  return ws_check_copy(userdata, pc, 30, source, target, (data & 65535) * 16, barrier);
}

PATCH ws_check_35(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return ws_check_copy(userdata, pc, 35, target, source, blocks * 16, 0);
}

PATCH ws_check_37(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return ws_check_copy(userdata, pc, 37, target, source, blocks * 16, 0);
}

#define CHECK_ORDER(kind) \
  PATCH ws_check_##kind(void* userdata, u64 pc) { return ws_check_order(userdata, pc, kind, 0, 0, 0); }
CHECK_ORDER(15)
CHECK_ORDER(21)
CHECK_ORDER(22)
CHECK_ORDER(33)

PATCH ws_check_6(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  (void)flags;
  return ws_check_order(userdata, pc, 6, 0, index, threads);
}

PATCH ws_check_29(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  (void)flags;
  return ws_check_order(userdata, pc, 29, 0, index, threads);
}

PATCH ws_check_16(void* userdata, u64 pc, u32 groups) {
  return ws_check_order(userdata, pc, 16, 0, groups, 0);
}

PATCH ws_check_34(void* userdata, u64 pc, u32 barrier) {
  return ws_check_order(userdata, pc, 34, 0, barrier, 0);
}

PATCH ws_check_13(void* userdata, u64 pc, void* barrier, u32 action, u32 data) {
  return ws_check_order(userdata, pc, 13, action & 127, reinterpret_cast<u64>(barrier), data);
}

PATCH ws_check_39(void* userdata, u64 pc, void* barrier, u32 action, u32 data, u32 result) {
  return ws_check_order(userdata, pc, 39, (action & 127) | (result != 0 ? 128 : 0),
                        reinterpret_cast<u64>(barrier), data);
}
