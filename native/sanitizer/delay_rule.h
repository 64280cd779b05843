// How long a warp waits: a function of where and when alone, so the same plan gives the same delays.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// warpsight/race/counter.py says what key, counter and results are, and computes the same. Compiled for the
// device, and for the host where the tests compare both.
#pragma once

#ifdef __CUDACC__
#define WS_BOTH static __device__ __forceinline__
#else
#define WS_BOTH static inline
#endif

// What a plan says of every delay.
struct WsRule {
  unsigned long long seed;
  unsigned long long threshold;  // a word of 32 bits below it: the occurrence waits
  unsigned int floor_ns;
  unsigned int ceiling_ns;
};

WS_BOTH void ws_philox(unsigned int x[4], unsigned int key0, unsigned int key1) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long first = 0xD2511F53ull * x[0], second = 0xCD9E8D57ull * x[2];
    const unsigned int x1 = x[1], x3 = x[3];
    x[0] = static_cast<unsigned int>(second >> 32) ^ x1 ^ key0;
    x[1] = static_cast<unsigned int>(second);
    x[2] = static_cast<unsigned int>(first >> 32) ^ x3 ^ key1;
    x[3] = static_cast<unsigned int>(first);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// The delay in ns, -1 where this occurrence does not wait. `point`: its number in the plan.
WS_BOTH long long ws_delay_of(const WsRule& rule, unsigned int point, unsigned int occurrence,
                              unsigned int launch, unsigned int block, unsigned int warp) {
  unsigned int x[4] = {occurrence, launch, block, warp};
  ws_philox(x, static_cast<unsigned int>(rule.seed) ^ point, static_cast<unsigned int>(rule.seed >> 32));
  if (x[0] >= rule.threshold) return -1;
  const unsigned long long span = static_cast<unsigned long long>(rule.ceiling_ns) - rule.floor_ns + 1;
  return rule.floor_ns + static_cast<long long>(x[1] * span >> 32);
}
