// Memory of the detector, as all threads of the device see it; the same on a host, where the tests run it.
#pragma once

typedef unsigned long long u64;
typedef unsigned int u32;

#ifdef __CUDACC__
#define WS_HERE static __device__ __forceinline__
#define WS_APART static __device__ __noinline__  // what is rare: its registers are not everyone's

WS_HERE u64 load(const u64* at) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
WS_HERE u32 load(const u32* at) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
// Two words that are together, the first at a multiple of their size.
WS_HERE void load_both(const u64* at, u64* first, u64* second) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(*first), "=l"(*second)
               : "l"(at)
               : "memory");
}
// Two words that the threads of a block alone write once the first says that they are theirs.
WS_HERE void own_both(const u32* at, u32* first, u32* second) {
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(*first), "=r"(*second) : "l"(at) : "memory");
}
WS_HERE void save(u32* at, u32 value) { *const_cast<volatile u32*>(at) = value; }
WS_HERE u64 exchange(u64* at, u64 value) {
  u64 before;
  asm volatile("atom.global.exch.b64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
  return before;
}
WS_HERE u64 swap_if(u64* at, u64 expected, u64 value) { return atomicCAS(at, expected, value); }
WS_HERE u32 swap_if(u32* at, u32 expected, u32 value) { return atomicCAS(at, expected, value); }
WS_HERE u64 add(u64* at, u64 value) { return atomicAdd(at, value); }
WS_HERE u32 add(u32* at, u32 value) { return atomicAdd(at, value); }
WS_HERE u64 raise(u64* at, u64 value) { return atomicMax(at, value); }
WS_HERE u32 raise(u32* at, u32 value) { return atomicMax(at, value); }
WS_HERE void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
WS_HERE void fence_block() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
#else
#define WS_HERE static inline
#define WS_APART static inline

WS_HERE u64 load(const u64* at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
WS_HERE u32 load(const u32* at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
WS_HERE void load_both(const u64* at, u64* first, u64* second) {
  *first = load(at);
  *second = load(at + 1);
}
WS_HERE void save(u32* at, u32 value) { __atomic_store_n(at, value, __ATOMIC_SEQ_CST); }
WS_HERE u64 exchange(u64* at, u64 value) { return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); }
WS_HERE u64 add(u64* at, u64 value) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); }
WS_HERE u32 add(u32* at, u32 value) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); }
template <class Word>
Word swap_if(Word* at, Word expected, Word value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
template <class Word>
Word raise(Word* at, Word value) {
  Word found = load(at);
  while (found < value) {
    const Word seen = swap_if(at, found, value);
    if (seen == found) break;
    found = seen;
  }
  return found;
}
WS_HERE void fence() {}
WS_HERE void fence_block() {}
#endif
