// The checks of kernels that were compiled with them: what sass/races/compiled adds to a module's PTX.
//
// Patches save all registers and jump to other code before each access; a call that ptxas compiles with the
// kernel saves what is in use. compiled_checks.ptx is what is shipped, made by scripts/generate_patches.py.
#include "sanitizer/check_access.cuh"

// The launches of this module's context, by the number of their grid; the library sets it when the module is
// loaded.
extern "C" {
__device__ const WsPlace* ws_places;
}

// The description of the launch that calls; null where it is not to be checked.
extern "C" __device__ __noinline__ void* ws_compiled_launch() {
  const WsPlace* places = ws_places;
  if (places == nullptr) return nullptr;
  u64 grid;
  asm("mov.u64 %0, %%gridid;" : "=l"(grid));
  const WsPlace* place = places + (grid & (WS_PLACES - 1));
  return place->grid == grid ? const_cast<WsLaunch*>(place->launch) : nullptr;
}

// An access of a lane. `what`: flags of the access | bytes << 8.
extern "C" __device__ __noinline__ void ws_compiled_global(void* launch, u32 facts, u64 address, u32 what) {
  check_global(launch, FactsGiven{facts}, address, what >> 8, what & 255);
}

extern "C" __device__ __noinline__ void ws_compiled_shared(void* launch, u32 facts, u64 address, u32 what) {
  check_shared(launch, FactsGiven{facts}, address & 0xffffff, what >> 8, what & 255);
}

// At an address that may be in any memory.
extern "C" __device__ __noinline__ void ws_compiled_generic(void* launch, u32 facts, u64 address, u32 what) {
  const void* at = reinterpret_cast<const void*>(address);
  if (__isShared(at))
    ws_compiled_shared(launch, facts, __cvta_generic_to_shared(at), what);
  else if (__isGlobal(at))
    ws_compiled_global(launch, facts, address, what);
}

// Rows of matrices in shared memory, 16 bytes at the address of each lane.
extern "C" __device__ __noinline__ void ws_compiled_matrices(void* launch, u32 facts, u64 address, u32 what,
                                                             u32 count) {
  const u32 row = 19 | (what & 255) << 8 | (what >> 8) << 16;
  check_other(launch, FactsGiven{facts}, row, address & 0xffffff, count);
}

// cp.async, from global to shared memory.
extern "C" __device__ __noinline__ void ws_compiled_copy(void* launch, u32 facts, u64 global, u64 shared,
                                                         u32 size) {
  check_copy(launch, FactsGiven{facts}, 14, global, static_cast<u32>(shared), size, 0);
}

// What orders accesses, by the Sanitizer's numbers of instruction classes.
extern "C" __device__ __noinline__ void ws_compiled_order(void* launch, u32 kind, u64 a, u32 b) {
  check_order(launch, FactsGiven{0}, kind, 0, a, b);
}

// A fence: what it releases and acquires stands in the facts.
extern "C" __device__ __noinline__ void ws_compiled_fence(void* launch, u32 facts) {
  WsMe me;
  if (come(&me, launch, FactsGiven{facts})) leave(me);
}

// An arrival at a named barrier that does not wait.
extern "C" __device__ __noinline__ void ws_compiled_arrive(void* launch, u32 number) {
  WsMe me;
  if (!come(&me, launch, FactsGiven{0})) return;
  hand_on(me, barrier_of(me, number)->held[0]);
  next_epoch(me);
}
