// One kind of wait in each kernel: what warps wait for, and what makes them wait, can be read off the
// instructions.
#include <cuda_pipeline.h>
extern "C" __global__ void load_use(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] + 1; }
extern "C" __global__ void two_loads(const float* a, const float* b, float* o) {
  o[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x * 7];
}
extern "C" __global__ void load_in_loop(const float* a, float* o, int n) {
  float s = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 32) s += a[i];
  o[threadIdx.x] = s;
}
extern "C" __global__ void pointer_chase(const int* next, int* o, int n) {
  int at = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < n; ++i) at = next[at];
  o[threadIdx.x] = at;
}
extern "C" __global__ void shared_use(float* o, int k) {
  __shared__ float s[256];
  s[threadIdx.x] = o[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[(threadIdx.x * k) & 255];
}
extern "C" __global__ void special(float* o) { o[threadIdx.x] = __sinf(o[threadIdx.x]) * 3; }
extern "C" __global__ void shuffle(float* o) {
  float v = o[threadIdx.x];
  v += __shfl_xor_sync(~0u, v, 1);
  o[threadIdx.x] = v;
}
extern "C" __global__ void async_copy(const float4* g, float4* o) {
  __shared__ float4 s[128];
  __pipeline_memcpy_async(&s[threadIdx.x], &g[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  o[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void atomic_result(int* a, int* o) {
  o[threadIdx.x] = atomicCAS(a + threadIdx.x, 3, 4) + 5;
}
extern "C" __global__ void array_at_run_time(float* o, int n) {
  float v[32];
  for (int i = 0; i < 32; ++i) v[i] = o[i];
  for (int i = 0; i < n; ++i) v[(i * 7 + threadIdx.x) & 31] += 1;
  o[threadIdx.x] = v[n & 31];
}
extern "C" __global__ void fixed_chain(float* o, float x) {
  float v = o[threadIdx.x];
  for (int i = 0; i < 4; ++i) v = v * x + 3;
  o[threadIdx.x] = v;
}
extern "C" __global__ void divide(double* o) { o[threadIdx.x] = 1.0 / o[threadIdx.x]; }
extern "C" __global__ void branches(const int* a, float* o) {
  float v = o[threadIdx.x];
  switch (a[threadIdx.x]) {
    case 0:
      v = sinf(v);
      break;
    case 1:
      v = v * v;
      break;
    case 2:
      v = expf(v);
      break;
    case 3:
      v = sqrtf(v);
      break;
    case 4:
      v = v / 7;
      break;
    case 5:
      v = 9;
      break;
    default:
      v = 1;
  }
  o[threadIdx.x] = v;
}
extern "C" __global__ void four_neighbours(const float* a, float* o) {
  const float* p = a + threadIdx.x * 4;
  o[threadIdx.x] = p[0] + p[1] * 2 + p[2] * 3 + p[3] * 4;
}
extern "C" __global__ void through_registers(const float* a, float* o) {
  __shared__ float s[128];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[127 - threadIdx.x];
}
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void mbarrier_wait(const float* g, float* o) {
  __shared__ alignas(128) float s[128];
  __shared__ alignas(8) unsigned long long full;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&full), to = (unsigned)__cvta_generic_to_shared(s);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(bar) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(to),
        "l"(g), "r"(bar)
        : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(bar)
                 : "memory");
  o[threadIdx.x] = s[threadIdx.x];
}
#endif
