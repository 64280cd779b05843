// The patches that record: one for each class of instructions.
#pragma once

#include "sanitizer/record.cuh"

namespace {

// An event that no address selects: a barrier, a call.
DEVICE int emit(void* userdata, const Event& event, u64 a, bool with_b = false, u64 b = 0) {
  const u32 what = event.kind | (event.flags & 255) << 8 | (event.size & 255) << 16;
  return ws_record(userdata, event.pc, what | (with_b ? kHasB : 0), a, b, nullptr);
}

// An event with a memory address, which the address range selects by lane.
DEVICE int access(void* userdata, const Event& event, u64 address, const void* data, bool with_b = false,
                  u64 b = 0) {
  const u32 what = event.kind | (event.flags & 255) << 8 | (event.size & 255) << 16 | kByAddress;
  ws_record(userdata, event.pc, what | (with_b ? kHasB : 0), address, b, data);
  return without_predicates();
}

// Where the values of an access are: what is stored, or for a load the memory itself, just before it is read.
DEVICE const void* value_of(u32 flags, const void* data, const void* memory) {
  const u64 where = reinterpret_cast<u64>((flags & kWrite) != 0 ? data : memory);
  const bool atomic = (flags & (kRead | kWrite)) == (kRead | kWrite);
  return reinterpret_cast<const void*>(atomic || (flags & kPrefetch) != 0 ? 0 : where);
}

DEVICE const void* of_window(u64 offset, bool shared) {
  u64 generic;
  if (shared)
    asm("cvta.shared.u64 %0, %1;" : "=l"(generic) : "l"(offset));
  else
    asm("cvta.local.u64 %0, %1;" : "=l"(generic) : "l"(offset));
  return reinterpret_cast<const void*>(generic);
}

}  // namespace

PATCH ws_global(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  return access(userdata, {pc, 3, flags, size}, reinterpret_cast<u64>(address),
                value_of(flags, data, address));
}

PATCH ws_shared(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  const u64 offset = reinterpret_cast<u64>(address);
  return access(userdata, {pc, 4, flags, size}, offset, value_of(flags, data, of_window(offset, true)));
}

PATCH ws_local(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  return access(userdata, {pc, 5, flags, size}, reinterpret_cast<u64>(address),
                value_of(flags, data, nullptr));
}

PATCH ws_remote(void* userdata, u64 pc, void* address, u32 size, u32 flags, const void* data) {
  return access(userdata, {pc, 17, flags, size}, reinterpret_cast<u64>(address),
                value_of(flags, data, nullptr));
}

PATCH ws_matrix(void* userdata, u64 pc, u32 address, u32 size, u32 flags, u32 count, const void*) {
  return access(userdata, {pc, 19, flags, size}, address, nullptr, true, count);
}

PATCH ws_copy_async(void* userdata, u64 pc, void* source, u32 target, u32 size) {
  return access(userdata, {pc, 14, kRead | kWrite, size}, reinterpret_cast<u64>(source), nullptr, true,
                target);
}

PATCH ws_barrier(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  return emit(userdata, {pc, 6, flags, 0}, index, true, threads);
}

PATCH ws_barrier_release(void* userdata, u64 pc, u32 index, u32 threads, u32 flags) {
  return emit(userdata, {pc, 29, flags, 0}, index, true, threads);
}

PATCH ws_syncwarp(void* userdata, u64 pc, u32 lanes) { return emit(userdata, {pc, 7, 0, 0}, lanes); }

PATCH ws_syncwarp_release(void* userdata, u64 pc, u32 lanes) { return emit(userdata, {pc, 33, 0, 0}, lanes); }

PATCH ws_block_enter(void* userdata, u64 pc) { return emit(userdata, {pc, 1, 0, 0}, 0); }

PATCH ws_block_exit(void* userdata, u64 pc) { return emit(userdata, {pc, 2, 0, 0}, 0); }

PATCH ws_shuffle(void* userdata, u64 pc) { return emit(userdata, {pc, 8, 0, 0}, 0); }

PATCH ws_call(void* userdata, u64 pc, u64 target, u32 flags) {
  return emit(userdata, {pc, 9, flags, 0}, target);
}

PATCH ws_return(void* userdata, u64 pc) { return emit(userdata, {pc, 10, 0, 0}, 0); }

PATCH ws_malloc(void* userdata, u64 pc, void* address, u64 size) {
  return emit(userdata, {pc, 11, 0, 0}, reinterpret_cast<u64>(address), true, size);
}

PATCH ws_aligned_malloc(void* userdata, u64 pc, void* address, u64 size) {
  return emit(userdata, {pc, 18, 0, 0}, reinterpret_cast<u64>(address), true, size);
}

PATCH ws_free(void* userdata, u64 pc, void* address) {
  return emit(userdata, {pc, 12, 0, 0}, reinterpret_cast<u64>(address));
}

// The action is in the flags; for an attempt, bit 7 says that the wait succeeded.
PATCH ws_mbarrier(void* userdata, u64 pc, void* barrier, u32 action, u32 data) {
  return emit(userdata, {pc, 13, action & 127, 0}, reinterpret_cast<u64>(barrier), true, data);
}

PATCH ws_mbarrier_attempt(void* userdata, u64 pc, void* barrier, u32 action, u32 data, u32 result) {
  const u32 flags = (action & 127) | (result != 0 ? 128 : 0);
  return emit(userdata, {pc, 39, flags, 0}, reinterpret_cast<u64>(barrier), true, data);
}

PATCH ws_copy_async_barrier(void* userdata, u64 pc, u32 barrier) {
  return emit(userdata, {pc, 34, 0, 0}, barrier);
}

PATCH ws_pipeline_commit(void* userdata, u64 pc) { return emit(userdata, {pc, 15, 0, 0}, 0); }

PATCH ws_pipeline_wait(void* userdata, u64 pc, u32 groups) { return emit(userdata, {pc, 16, 0, 0}, groups); }

// Bulk copies have three operands: A is the address outside of shared memory (the target, between shared
// memories), B the shared one in its low half and 16-byte blocks in bits 32-47; the barrier's record of its
// own kind says the rest.
PATCH ws_bulk_load(void* userdata, u64 pc, u64 source, u32 target, u32 barrier, u32 data, u32 multicast) {
  (void)barrier;
  return emit(userdata, {pc, 30, multicast != 0 ? 128u : 0u, 16}, source, true,
              target | static_cast<u64>(data & 65535) << 32);
}

PATCH ws_bulk_store(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return emit(userdata, {pc, 35, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_bulk_shared(void* userdata, u64 pc, u32 source, u32 target, u32 barrier, u32 blocks) {
  (void)barrier;
  return emit(userdata, {pc, 36, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_bulk_reduce(void* userdata, u64 pc, u64 target, u32 source, u32 blocks) {
  return emit(userdata, {pc, 37, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_bulk_reduce_shared(void* userdata, u64 pc, u32 source, u32 target, u32 barrier, u32 blocks) {
  (void)barrier;
  return emit(userdata, {pc, 38, 0, 16}, target, true, source | static_cast<u64>(blocks) << 32);
}

PATCH ws_store_async(void* userdata, u64 pc, u32 address, u32 barrier, void*, u32 size) {
  return emit(userdata, {pc, 26, 0, size}, address, true, barrier);
}

PATCH ws_reduce_async(void* userdata, u64 pc, u32 address, u32 barrier, u32 size) {
  return emit(userdata, {pc, 27, 0, size}, address, true, barrier);
}

PATCH ws_memset_shared(void* userdata, u64 pc, u32 address, u32 blocks) {
  return emit(userdata, {pc, 32, 0, 8}, address, true, blocks);
}

PATCH ws_cluster_arrive(void* userdata, u64 pc) { return emit(userdata, {pc, 21, 0, 0}, 0); }

PATCH ws_cluster_wait(void* userdata, u64 pc) { return emit(userdata, {pc, 22, 0, 0}, 0); }

// Operand A and B: address in the low half, bytes in the high half of matrix A (0 bytes: registers) and
// matrix B.
PATCH ws_wgmma(void* userdata, u64 pc, u32 address_a, u32 size_a, u32 address_b, u32 size_b, u32 flags,
               u32 lanes) {
  return emit(userdata, {pc, 23, (flags & 127) | (lanes != 0 ? 128 : 0), 0},
              address_a | static_cast<u64>(size_a) << 32, true, address_b | static_cast<u64>(size_b) << 32);
}

PATCH ws_wgmma_wait(void* userdata, u64 pc, u32 groups, u32 lanes) {
  return emit(userdata, {pc, 24, lanes != 0 ? 128u : 0u, 0}, groups);
}

PATCH ws_wgmma_fence(void* userdata, u64 pc, u32 lanes) {
  return emit(userdata, {pc, 25, lanes != 0 ? 128u : 0u, 0}, 0);
}

PATCH ws_tensor_barrier(void* userdata, u64 pc, u32 barrier, u32 multicast, u32) {
  return emit(userdata, {pc, 31, multicast != 0 ? 128u : 0u, 0}, barrier);
}
