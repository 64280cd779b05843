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
  unsigned int depth;  // of a schedule by priorities; 0: each delay is drawn
  unsigned int steps;  // of a warp, of which such a schedule draws those where priorities change
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

// A warp's wait at each of its steps in a schedule by priorities (PCT: Burckhardt, Kothari, Musuvathi,
// Nagarakatti, "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010). Waits
// stand for priorities: each warp draws one from the lower half of the plan's range; at depth - 1 steps,
// each of a warp of the launch, that warp falls behind all others, to a wait of its own in the upper half.
WS_BOTH long long ws_priority_delay(const WsRule& rule, unsigned int step, unsigned int launch,
                                    unsigned long long warp, unsigned long long warps) {
  if (rule.threshold == 0) return -1;
  const unsigned int high = static_cast<unsigned int>(rule.seed >> 32);
  unsigned int x[4] = {static_cast<unsigned int>(warp), static_cast<unsigned int>(warp >> 32), launch, 0};
  ws_philox(x, static_cast<unsigned int>(rule.seed), high);
  const unsigned long long span = static_cast<unsigned long long>(rule.ceiling_ns) - rule.floor_ns;
  const unsigned long long lower = rule.depth > 1 ? span / 2 : span;
  unsigned long long wait = x[0] * (lower + 1) >> 32;
  unsigned int latest = 0;
  for (unsigned int change = 1; change < rule.depth; ++change) {
    unsigned int y[4] = {change, 0, launch, 1};
    ws_philox(y, static_cast<unsigned int>(rule.seed), high);
    const unsigned long long chosen = (static_cast<unsigned long long>(y[1]) << 32 | y[0]) % warps;
    const unsigned int at =
        static_cast<unsigned int>(static_cast<unsigned long long>(y[2]) * rule.steps >> 32);
    if (chosen != warp || at > step || at < latest) continue;
    latest = at;
    wait = span - (span - lower) * (change - 1) / rule.depth;
  }
  return rule.floor_ns + static_cast<long long>(wait);
}
