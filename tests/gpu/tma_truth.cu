// Copies by the TMA whose operands, maps and results the program says itself, as JSON (test_nvbit.py).
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                \
  if (cudaError_t error = (call); error != cudaSuccess) {          \
    fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
    exit(1);                                                       \
  }

using u32 = uint32_t;
using u64 = unsigned long long;

constexpr u32 kBuffer = 1 << 18, kShared = 16384, kLogged = 64;

// What a thread says of a copy that it issues.
struct Said {
  u64 map, shared, barrier, other, address, bytes, mask, policy;
  int at[5];
  u32 offsets[3];
  u32 block, warp;
};

struct Log {
  u32 count;
  Said said[kLogged];
};

struct Place {
  int at[5];
  u32 offsets[3];
};

__device__ void say(Log* log, Said said) {
  said.block = blockIdx.x;
  said.warp = threadIdx.x / 32;
  log->said[atomicAdd(&log->count, 1)] = said;
}

__device__ u32 shared_of(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

__device__ void init(u64* barrier, u32 arrivals = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_of(barrier)), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ void expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_of(barrier)), "r"(bytes)
               : "memory");
}

__device__ u64 now() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__device__ void wait(u64* barrier, u32 parity = 0) {
  u32 done = 0;
  const u64 begin = now();
  while (done == 0) {
    if (now() - begin > 20'000'000'000ull) __trap();
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(shared_of(barrier)), "r"(parity)
                 : "memory");
  }
}

__device__ void finish() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ u64 policy_of() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(policy));
  return policy;
}

#define LOAD "cp.async.bulk.tensor."
#define TO_SHARED "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define OUT "d.global.shared::cta.tile.bulk_group"
#define P1 "{%2}"
#define P2 "{%2, %3}"
#define P3 "{%2, %3, %4}"
#define P4 "{%2, %3, %4, %5}"
#define P5 "{%2, %3, %4, %5, %6}"
#define GIVEN(map, shared, at, more) \
  ::"l"(map), "r"(shared), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(more) : "memory"
#define LOADED(rank, where) \
  asm volatile(LOAD #rank TO_SHARED " [%1], [%0, " where "], [%7];" GIVEN(map, shared, at, more))
#define STORED(rank, where) \
  asm volatile(LOAD #rank OUT " [%0, " where "], [%1];" GIVEN(map, shared, at, more))
#define ADDED(rank, where)                                                                                 \
  asm volatile("cp.reduce.async.bulk.tensor." #rank "d.global.shared::cta.add.tile.bulk_group [%0, " where \
               "], [%1];" GIVEN(map, shared, at, more))
#define AHEAD(rank, where)                                                           \
  asm volatile("cp.async.bulk.prefetch.tensor." #rank "d.L2.global.tile [%0, " where \
               "];" GIVEN(map, shared, at, more))
#define OF_RANK(what, rank)     \
  if constexpr (rank == 1)      \
    what(1, P1);                \
  else if constexpr (rank == 2) \
    what(2, P2);                \
  else if constexpr (rank == 3) \
    what(3, P3);                \
  else if constexpr (rank == 4) \
    what(4, P4);                \
  else                          \
    what(5, P5)

template <int rank>
__device__ void load(Log* log, const CUtensorMap* map, const Place& place, void* to, u64* barrier) {
  const u32 shared = shared_of(to), more = shared_of(barrier);
  const int* const at = place.at;
  OF_RANK(LOADED, rank);
  say(log, {reinterpret_cast<u64>(map), shared, more, 0, 0, 0, 0, 0, {at[0], at[1], at[2], at[3], at[4]}});
}

__device__ void dump(const unsigned char* shared, unsigned char* to) {
  __syncthreads();
  for (u32 i = threadIdx.x; i < kShared; i += blockDim.x) to[blockIdx.x * kShared + i] = shared[i];
}

// A tile of a tensor whose map is a parameter of the kernel.
template <int rank>
__global__ void loads(const __grid_constant__ CUtensorMap map, Place place, u32 bytes, Log* log,
                      unsigned char* to) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barrier;
  for (u32 i = threadIdx.x; i < kShared; i += blockDim.x) shared[i] = 0xcc;
  if (threadIdx.x == 0) init(&barrier);
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    load<rank>(log, &map, place, shared, &barrier);
    expect(&barrier, bytes);
  }
  wait(&barrier);
  dump(shared, to);
}

__constant__ CUtensorMap in_constant_memory;

// Other forms of a load of two dimensions: a map in global memory and in constant memory, a cache policy,
// several lanes of another warp, and a map that the kernel replaces.
__global__ void forms(CUtensorMap* map, const CUtensorMap* other, Place place, u32 bytes, Log* log,
                      unsigned char* to) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barrier;
  if (threadIdx.x == 0) init(&barrier);
  __syncthreads();
  if (threadIdx.x == 0) {
    load<2>(log, map, place, shared, &barrier);
    load<2>(log, &in_constant_memory, place, shared + bytes, &barrier);
    const u64 policy = policy_of();
    const u32 at = shared_of(shared + 2 * bytes), on = shared_of(&barrier);
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, "
        "{%2, %3}], [%4], %5;" ::"r"(at),
        "l"(map), "r"(place.at[0]), "r"(place.at[1]), "r"(on), "l"(policy)
        : "memory");
    say(log, {reinterpret_cast<u64>(map), at, on, 0, 0, 0, 0, policy, {place.at[0], place.at[1]}});
    expect(&barrier, 3 * bytes);
  }
  wait(&barrier);
  __syncthreads();
  if (threadIdx.x >= 32 && threadIdx.x < 35) {
    const u32 lane = threadIdx.x - 32;
    Place own = place;
    own.at[1] += lane;
    load<2>(log, map, own, shared + (3 + lane) * bytes, &barrier);
    if (lane == 0) expect(&barrier, 3 * bytes);
  }
  wait(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < sizeof(CUtensorMap) / sizeof(u64); ++i)
      reinterpret_cast<volatile u64*>(map)[i] = reinterpret_cast<const u64*>(other)[i];
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    load<2>(log, map, place, shared + 6 * bytes, &barrier);
    expect(&barrier, bytes);
  }
  wait(&barrier, 0);
  dump(shared, to);
}

__global__ void im2col(const __grid_constant__ CUtensorMap map, Place place, u32 bytes, Log* log,
                       unsigned char* to) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barrier;
  for (u32 i = threadIdx.x; i < kShared; i += blockDim.x) shared[i] = 0xcc;
  if (threadIdx.x == 0) init(&barrier);
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    const int* const at = place.at;
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3, %4, "
        "%5}], [%6], {%7, %8};" ::"r"(shared_of(shared)),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(shared_of(&barrier)),
        "h"(static_cast<uint16_t>(place.offsets[0])), "h"(static_cast<uint16_t>(place.offsets[1]))
        : "memory");
    say(log, {reinterpret_cast<u64>(&map),
              shared_of(shared),
              shared_of(&barrier),
              0,
              0,
              0,
              0,
              0,
              {at[0], at[1], at[2], at[3]},
              {place.offsets[0], place.offsets[1]}});
    expect(&barrier, bytes);
  }
  wait(&barrier);
  dump(shared, to);
}

// Block 0 of a cluster loads for both.
__global__ void __cluster_dims__(2, 1, 1)
    multicast(const __grid_constant__ CUtensorMap map, Place place, u32 bytes, Log* log, unsigned char* to) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barrier;
  if (threadIdx.x == 0) {
    init(&barrier);
    expect(&barrier, bytes);
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    const int* const at = place.at;
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, "
        "{%2, %3, %4}], [%5], %6;" ::"r"(shared_of(shared)),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(shared_of(&barrier)), "h"(static_cast<uint16_t>(3))
        : "memory");
    say(log, {reinterpret_cast<u64>(&map),
              shared_of(shared),
              shared_of(&barrier),
              0,
              0,
              0,
              3,
              0,
              {at[0], at[1], at[2]}});
  }
  wait(&barrier);
  dump(shared, to);
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}

enum Way { kStore, kAdd, kPrefetch };

// Shared memory holds what `from` does.
template <int rank, Way way>
__global__ void outward(const __grid_constant__ CUtensorMap tensor, Place place, const unsigned char* from,
                        Log* log) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  for (u32 i = threadIdx.x; i < kShared; i += blockDim.x) shared_bytes[i] = from[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  const u32 shared = shared_of(shared_bytes), more = 0;
  const int* const at = place.at;
  const CUtensorMap* const map = &tensor;
  if constexpr (way == kStore) {
    OF_RANK(STORED, rank);
  } else if constexpr (way == kAdd) {
    OF_RANK(ADDED, rank);
  } else {
    OF_RANK(AHEAD, rank);
  }
  say(log, {reinterpret_cast<u64>(map),
            way == kPrefetch ? 0 : shared,
            0,
            0,
            0,
            0,
            0,
            0,
            {at[0], at[1], at[2], at[3], at[4]}});
  finish();
}

// Copies without a tensor map: to shared memory, to another block's, back, added, and ahead of time.
__global__ void __cluster_dims__(2, 1, 1) bulk(unsigned char* global, u32 bytes, Log* log) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barrier, far_barrier;
  if (threadIdx.x == 0) {
    init(&barrier);
    init(&far_barrier);
    expect(&far_barrier, bytes);
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  const u64 address = reinterpret_cast<u64>(global);
  const u32 here = shared_of(shared), on = shared_of(&barrier);
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
    say(log, {0, 0, 0, 0, address, bytes});
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(here),
        "l"(address), "r"(bytes), "r"(on)
        : "memory");
    say(log, {0, here, on, 0, address, bytes});
    expect(&barrier, bytes);
    wait(&barrier);
    u32 there, far;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(there) : "r"(here + 8192));
    asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(far) : "r"(shared_of(&far_barrier)));
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            there),
        "r"(here), "r"(bytes), "r"(far)
        : "memory");
    say(log, {0, there, far, here, 0, bytes});
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(address + bytes),
                 "r"(here), "r"(bytes)
                 : "memory");
    say(log, {0, here, 0, 0, address + bytes, bytes});
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(
                     address + 2 * bytes),
                 "r"(here), "r"(bytes)
                 : "memory");
    say(log, {0, here, 0, 0, address + 2 * bytes, bytes});
    finish();
  }
  if (blockIdx.x == 1) wait(&far_barrier);
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}

// ---- host

struct Tensor {
  const char* name;
  CUtensorMapDataType type;
  u32 rank;
  u64 dims[5], strides[4];
  u32 box[5], steps[5];
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

using Encode = decltype(&cuTensorMapEncodeTiled);
using EncodePixels = decltype(&cuTensorMapEncodeIm2col);

static void* entry(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  return found;
}

static std::string hex(const void* data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned char byte = static_cast<const unsigned char*>(data)[i];
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

template <class T>
static std::string list(const T* values, u32 count) {
  std::string text = "[";
  for (u32 i = 0; i < count; ++i) text += (i != 0 ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

static unsigned char* g_global;  // what tensors are in
static unsigned char* g_from;    // what shared memory is filled with
static unsigned char* g_to;      // what is found there
static Log* g_log;
static bool g_first = true;
static int g_case = -1, g_only = -1;  // which case is next, and the only one that is wanted

static bool skipped() { return ++g_case != g_only && g_only >= 0; }

static void pattern(unsigned char* device, u32 seed) {
  std::vector<unsigned char> bytes(kBuffer);
  for (u32 i = 0; i < kBuffer; ++i) bytes[i] = static_cast<unsigned char>(i * 131 + (i >> 8) * 17 + seed);
  CHECK(cudaMemcpy(device, bytes.data(), kBuffer, cudaMemcpyHostToDevice));
}

static CUtensorMap tiled(const Tensor& t, std::string* said, bool* made) {
  CUtensorMap map;
  memset(&map, 0, sizeof map);
  u64 dims[5], strides[4];
  memcpy(dims, t.dims, sizeof dims);
  memcpy(strides, t.strides, sizeof strides);
  const CUresult result = reinterpret_cast<Encode>(entry("cuTensorMapEncodeTiled"))(
      &map, t.type, t.rank, g_global, reinterpret_cast<cuuint64_t*>(dims),
      reinterpret_cast<cuuint64_t*>(strides), t.box, t.steps, t.interleave, t.swizzle, t.promotion, t.fill);
  *made = result == CUDA_SUCCESS;
  *said = "{\"name\":\"" + std::string(t.name) + "\",\"type\":" + std::to_string(t.type) +
          ",\"rank\":" + std::to_string(t.rank) +
          ",\"address\":" + std::to_string(reinterpret_cast<u64>(g_global)) +
          ",\"dims\":" + list(t.dims, t.rank) + ",\"strides\":" + list(t.strides, t.rank - 1) +
          ",\"box\":" + list(t.box, t.rank) + ",\"steps\":" + list(t.steps, t.rank) +
          ",\"interleave\":" + std::to_string(t.interleave) + ",\"swizzle\":" + std::to_string(t.swizzle) +
          ",\"promotion\":" + std::to_string(t.promotion) + ",\"fill\":" + std::to_string(t.fill) +
          ",\"bytes\":\"" + hex(&map, sizeof map) + "\",\"result\":" + std::to_string(result) + "}";
  return map;
}

// Waits for a launch and prints it. `found`: device memory to print, with its size.
static void report(const char* kernel, const std::string& maps, const unsigned char* found, u32 bytes) {
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  Log log;
  CHECK(cudaMemcpy(&log, g_log, sizeof log, cudaMemcpyDeviceToHost));
  std::vector<unsigned char> held(bytes);
  if (bytes != 0) CHECK(cudaMemcpy(held.data(), found, bytes, cudaMemcpyDeviceToHost));
  printf("%s{\"kernel\":\"%s\",\"maps\":[%s],\"said\":[", g_first ? "" : ",\n", kernel, maps.c_str());
  g_first = false;
  for (u32 i = 0; i < log.count; ++i) {
    const Said& s = log.said[i];
    printf(
        "%s{\"map\":%llu,\"shared\":%llu,\"barrier\":%llu,\"other\":%llu,\"address\":%llu,\"bytes\":%llu,"
        "\"mask\":%llu,\"policy\":%llu,\"at\":%s,\"offsets\":%s,\"block\":%u,\"warp\":%u}",
        i != 0 ? "," : "", s.map, s.shared, s.barrier, s.other, s.address, s.bytes, s.mask, s.policy,
        list(s.at, 5).c_str(), list(s.offsets, 3).c_str(), s.block, s.warp);
  }
  printf("],\"found\":\"%s\"}", hex(held.data(), bytes).c_str());
  CHECK(cudaMemset(g_log, 0, sizeof(Log)));
}

// By the enumerators of the types that are used.
constexpr u32 kTypeBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};

static u32 box_bytes(const Tensor& t) {
  u32 bytes = kTypeBytes[t.type];
  for (u32 i = 0; i < t.rank; ++i)
    bytes *= i == 0 && t.interleave == 0 ? t.box[0] : (t.box[i] + t.steps[i] - 1) / t.steps[i];
  return bytes;
}

template <int rank>
static void run_load(const Tensor& t, Place place) {
  if (skipped()) return;
  std::string said;
  bool made;
  const CUtensorMap map = tiled(t, &said, &made);
  if (!made) return fprintf(stderr, "%s is refused: %s\n", t.name, said.c_str()), void();
  pattern(g_global, 7);
  loads<rank><<<1, 64, kShared>>>(map, place, box_bytes(t), g_log, g_to);
  report("loads", said, g_to, kShared);
}

template <int rank, Way way>
static void run_outward(const char* kernel, const Tensor& t, Place place) {
  if (skipped()) return;
  std::string said;
  bool made;
  const CUtensorMap map = tiled(t, &said, &made);
  if (!made) return fprintf(stderr, "%s is refused: %s\n", t.name, said.c_str()), void();
  pattern(g_global, 7);
  outward<rank, way><<<1, 64, kShared>>>(map, place, g_from, g_log);
  report(kernel, said, g_global, 65536);
}

static void run_im2col(const int (&lower)[2], const int (&upper)[2], u32 channels, u32 pixels,
                       const u32 (&steps)[4], Place place) {
  if (skipped()) return;
  const u64 dims[] = {32, 9, 7, 3}, strides[] = {64, 64 * 9, 64 * 9 * 7};
  CUtensorMap map;
  memset(&map, 0, sizeof map);
  const CUresult result = reinterpret_cast<EncodePixels>(entry("cuTensorMapEncodeIm2col"))(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, g_global, reinterpret_cast<const cuuint64_t*>(dims),
      reinterpret_cast<const cuuint64_t*>(strides), lower, upper, channels, pixels, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  const std::string said = "{\"name\":\"im2col\",\"type\":6,\"rank\":4,\"address\":" +
                           std::to_string(reinterpret_cast<u64>(g_global)) + ",\"dims\":" + list(dims, 4) +
                           ",\"strides\":" + list(strides, 3) + ",\"lower\":" + list(lower, 2) +
                           ",\"upper\":" + list(upper, 2) + ",\"channels\":" + std::to_string(channels) +
                           ",\"pixels\":" + std::to_string(pixels) + ",\"steps\":" + list(steps, 4) +
                           ",\"interleave\":0,\"swizzle\":2,\"promotion\":3,\"fill\":0,\"bytes\":\"" +
                           hex(&map, sizeof map) + "\",\"result\":" + std::to_string(result) + "}";
  if (result != CUDA_SUCCESS) return fprintf(stderr, "im2col is refused: %s\n", said.c_str()), void();
  pattern(g_global, 7);
  im2col<<<1, 64, kShared>>>(map, place, channels * pixels * 2, g_log, g_to);
  report("im2col", said, g_to, kShared);
}

#define TYPE(name) CU_TENSOR_MAP_DATA_TYPE_##name
#define SWIZZLE(name) CU_TENSOR_MAP_SWIZZLE_##name
constexpr auto kPlain = CU_TENSOR_MAP_INTERLEAVE_NONE;
constexpr auto kZeros = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
               kNans = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
constexpr auto kNoPromotion = CU_TENSOR_MAP_L2_PROMOTION_NONE,
               kPromotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;

// clang-format off
static const Tensor kLine = {"line", TYPE(UINT8), 1, {1000}, {}, {256}, {1}, kPlain, SWIZZLE(NONE), kNoPromotion, kZeros};
static const Tensor kMatrix = {"matrix", TYPE(FLOAT32), 2, {60, 40}, {256}, {32, 8}, {1, 1}, kPlain, SWIZZLE(128B), kPromotion, kNans};
static const Tensor kHalves = {"halves", TYPE(BFLOAT16), 2, {96, 50}, {192}, {32, 16}, {1, 1}, kPlain, SWIZZLE(64B), kNoPromotion, kZeros};
static const Tensor kSteps = {"steps", TYPE(INT32), 2, {64, 64}, {256}, {16, 15}, {1, 2}, kPlain, SWIZZLE(NONE), kNoPromotion, kZeros};
static const Tensor kVolume = {"volume", TYPE(FLOAT16), 3, {40, 12, 9}, {80, 960}, {16, 4, 3}, {1, 1, 1}, kPlain, SWIZZLE(32B), kNoPromotion, kZeros};
static const Tensor kFour = {"four", TYPE(FLOAT64), 4, {10, 6, 5, 4}, {80, 480, 2400}, {8, 4, 3, 2}, {1, 1, 1, 1}, kPlain, SWIZZLE(NONE), kNoPromotion, kZeros};
static const Tensor kFive = {"five", TYPE(UINT16), 5, {16, 5, 4, 3, 6}, {32, 160, 640, 1920}, {16, 2, 2, 3, 3}, {1, 1, 1, 1, 2}, kPlain, SWIZZLE(NONE), kNoPromotion, kZeros};
static const Tensor kLongs = {"longs", TYPE(INT64), 2, {16, 32}, {128}, {4, 8}, {1, 1}, kPlain, SWIZZLE(NONE), kNoPromotion, kZeros};
static const Tensor kWords = {"words", TYPE(UINT32), 2, {61, 40}, {256}, {32, 8}, {1, 1}, kPlain, SWIZZLE(128B), kNoPromotion, kZeros};
static const Tensor kOther = {"other", TYPE(UINT16), 2, {64, 64}, {128}, {32, 8}, {1, 1}, kPlain, SWIZZLE(NONE), kNoPromotion, kZeros};
static const Tensor kThird = {"third", TYPE(UINT16), 2, {50, 64}, {256}, {32, 8}, {1, 1}, kPlain, SWIZZLE(NONE), kPromotion, kZeros};
static const Tensor kLayers = {"layers", TYPE(FLOAT16), 4, {8, 20, 12, 6}, {16, 320, 3840}, {8, 8, 4, 2}, {1, 1, 1, 1}, CU_TENSOR_MAP_INTERLEAVE_16B, SWIZZLE(NONE), kNoPromotion, kZeros};
// clang-format on

// The number of a case on the command line: only this one. An innermost coordinate that is no multiple of 16
// bytes and a negative coordinate of a store make the instruction illegal.
int main(int count, char** arguments) {
  if (count > 1) g_only = atoi(arguments[1]);
  CHECK(cudaMalloc(&g_global, kBuffer));
  CHECK(cudaMalloc(&g_from, kBuffer));
  CHECK(cudaMalloc(&g_to, 2 * kShared));
  CHECK(cudaMalloc(&g_log, sizeof(Log)));
  CHECK(cudaMemset(g_log, 0, sizeof(Log)));
  pattern(g_from, 99);
  printf("[");
  for (const int at : {0, 896, -112, 2000}) run_load<1>(kLine, {{at}});
  for (const Place& place : {Place{{0, 0}}, {{40, 36}}, {{-8, -3}}, {{56, 39}}, {{100, 0}}})
    run_load<2>(kMatrix, place);
  run_load<2>(kHalves, {{80, 40}});
  run_load<2>(kHalves, {{16, 0}});
  run_load<2>(kSteps, {{8, 3}});
  run_load<2>(kSteps, {{56, 55}});
  run_load<2>(kLongs, {{14, 28}});
  run_load<3>(kVolume, {{32, 10, 7}});
  run_load<3>(kVolume, {{-8, 0, -1}});
  run_load<4>(kFour, {{4, 4, 3, 3}});
  run_load<5>(kFive, {{0, 4, 3, 1, 3}});
  run_load<5>(kFive, {{0, 0, 0, 0, -1}});
  run_outward<1, kStore>("store", kLine, {{896}});
  run_outward<2, kStore>("store", kMatrix, {{40, 36}});
  run_outward<2, kStore>("store", kHalves, {{80, 40}});
  run_outward<3, kStore>("store", kVolume, {{32, 2, 7}});
  run_outward<4, kStore>("store", kFour, {{4, 4, 3, 3}});
  run_outward<5, kStore>("store", kFive, {{0, 4, 3, 1, 0}});
  run_outward<2, kAdd>("add", kWords, {{40, 36}});
  run_outward<2, kAdd>("add", kWords, {{0, 8}});
  run_outward<3, kPrefetch>("prefetch", kVolume, {{8, 4, 2}});
  run_outward<4, kPrefetch>("prefetch", kLayers, {{0, 4, 2, 1}});
  run_outward<2, kPrefetch>("prefetch", kMatrix, {{-4, 1}});
  run_im2col({-1, -1}, {-1, -1}, 32, 40, {1, 1, 1, 1}, {{0, -1, -1, 0}, {2, 1}});
  run_im2col({0, 0}, {0, 0}, 16, 64, {1, 1, 1, 1}, {{16, 5, 6, 1}, {0, 0}});
  run_im2col({-1, 0}, {-1, -2}, 32, 33, {1, 2, 2, 1}, {{0, 3, 2, 2}, {1, 2}});
  if (!skipped()) {
    std::string said;
    bool made;
    const CUtensorMap map = tiled(kVolume, &said, &made);
    pattern(g_global, 7);
    multicast<<<2, 64, kShared>>>(map, {{32, 2, 7}}, box_bytes(kVolume), g_log, g_to);
    report("multicast", said, g_to, 2 * kShared);
  }
  if (!skipped()) {
    std::string first, second;
    bool made;
    const CUtensorMap maps[2] = {tiled(kOther, &first, &made), tiled(kThird, &second, &made)};
    CUtensorMap* device;
    CHECK(cudaMalloc(&device, sizeof maps));
    CHECK(cudaMemcpy(device, maps, sizeof maps, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(in_constant_memory, maps, sizeof *maps));
    pattern(g_global, 7);
    forms<<<1, 64, kShared>>>(device, device + 1, {{40, 60}}, box_bytes(kOther), g_log, g_to);
    report("forms", first + "," + second, g_to, kShared);
  }
  if (!skipped()) {
    pattern(g_global, 7);
    bulk<<<2, 32, kShared>>>(g_global, 2048, g_log);
    report("bulk", "", g_global, 8192);
  }
  printf("]\n");
  return 0;
}
