// Instructions of many kinds.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void conversions(double* d, float* f, long long* l, int* i, unsigned long long* u) {
  int t = threadIdx.x;
  double x = d[t];
  float y = f[t];
  long long z = l[t];
  unsigned long long w = u[t];
  d[t + 32] = (double)z + (double)y + (double)i[t] + sqrt(x) + (double)w;
  l[t + 32] = (long long)x + (long long)y;
  i[t + 32] = (int)x + (int)y + __popcll(w) + __clz(i[t]) + __ffs(i[t]) + __brev(i[t]);
  u[t + 32] =
      (unsigned long long)x + (unsigned long long)y + __umul64hi(w, w) + w / 7 + w % 11 + (w << (i[t] & 63));
  f[t + 32] = (float)x + (float)z + (float)w + __sinf(y) + rintf(y) + (float)rint(x) + exp2f(y) +
              fminf(y, 3.f) + erff(y);
}
extern "C" __global__ void votes(int* i, float* f) {
  int v = i[threadIdx.x];
  unsigned b = __ballot_sync(~0u, v > 3);
  int a = __any_sync(~0u, v > 5), c = __all_sync(~0u, v < 100);
  int m = __match_any_sync(~0u, v), p;
  int q = __match_all_sync(~0u, v, &p);
  int s = __reduce_add_sync(~0u, v) + __reduce_max_sync(~0u, v);
  v += __shfl_down_sync(~0u, v, 1) + __shfl_xor_sync(~0u, v, 2) + __shfl_sync(~0u, v, b & 31);
  i[threadIdx.x] = v + a + c + m + q + p + s + __popc(b) + __syncthreads_count(v) + __syncthreads_or(v > 3);
  f[threadIdx.x] = __activemask();
}
extern "C" __global__ void atomics(int* i, unsigned long long* u, float* f, double* d, int* o) {
  __shared__ int s[64];
  __shared__ unsigned long long su[64];
  s[threadIdx.x] = 0;
  su[threadIdx.x] = 0;
  __syncthreads();
  o[0] = atomicAdd(i, 3) + atomicCAS(i + 1, 3, 4) + atomicMax(i + 2, 4) + atomicExch(i + 3, threadIdx.x);
  u[9] = atomicAdd(u, 3ull) + atomicCAS(u + 1, 3ull, 4ull + threadIdx.x) + atomicExch(u + 2, 9ull);
  f[9] = atomicAdd(f, 1.f);
  d[9] = atomicAdd(d, 1.0);
  atomicAdd(&s[o[1] & 63], 1);
  atomicAdd(&su[o[2] & 63], 1ull);
  o[3] = atomicCAS(&s[3], 4, o[5]);
  u[7] = atomicCAS(&su[3], 4ull, u[5]);
  atomicAdd(f + 1, 2.f);
  atomicAdd(d + 1, 2.0);
  atomicMin(i + 8, 4);
  __threadfence();
  __threadfence_system();
  atomicAdd((__half2*)(f + 3), __half2(1.f, 2.f));
  __syncthreads();
  o[7 + threadIdx.x] = s[threadIdx.x] + (int)su[threadIdx.x];
}
extern "C" __global__ void products(half* a, half* b, float* c, __nv_bfloat16* e, double* d, signed char* s,
                                    int* si, float* t, half* h) {
  {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 0.f);
    for (int k = 0; k < 8; ++k) {
      wmma::load_matrix_sync(x, a + k * 16, 128);
      wmma::load_matrix_sync(y, b + k * 16, 128);
      wmma::mma_sync(z, x, y, z);
    }
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> zh;
    wmma::fill_fragment(zh, __half(0.f));
    wmma::mma_sync(zh, x, y, zh);
    wmma::store_matrix_sync(h, zh, 16, wmma::mem_row_major);
  }
  {
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> z;
    wmma::fill_fragment(z, 0.0);
    wmma::load_matrix_sync(x, d, 8);
    wmma::load_matrix_sync(y, d + 64, 8);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(d + 128, z, 8, wmma::mem_row_major);
  }
  {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> z;
    wmma::fill_fragment(z, 0);
    wmma::load_matrix_sync(x, s, 16);
    wmma::load_matrix_sync(y, s + 256, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(si, z, 16, wmma::mem_row_major);
  }
  {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> z;
    wmma::fill_fragment(z, 0.f);
    wmma::load_matrix_sync(x, t, 16);
    wmma::load_matrix_sync(y, t + 256, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(t + 512, z, 16, wmma::mem_row_major);
  }
}
extern "C" __global__ void copies(const float4* g, float4* o, const double2* e, double2* p, uchar4* c,
                                  short* h) {
  __shared__ float4 s[256];
  __pipeline_memcpy_async(&s[threadIdx.x], &g[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_memcpy_async(&s[threadIdx.x + 128], &g[threadIdx.x + 128], 16);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  o[threadIdx.x] = s[threadIdx.x ^ 1];
  __pipeline_wait_prior(0);
  __syncthreads();
  o[threadIdx.x + 128] = s[128 + (threadIdx.x ^ 3)];
  double2 v = e[threadIdx.x];
  v.x += v.y;
  p[threadIdx.x] = v;
  uchar4 w = c[threadIdx.x];
  w.x += w.y;
  c[threadIdx.x] = w;
  h[threadIdx.x] += 3;
}
extern "C" __global__ void halves(__half2* a, __nv_bfloat162* b, float2* f, unsigned* u) {
  int t = threadIdx.x;
  __half2 x = a[t], y = a[t + 32];
  a[t] = __hfma2(x, y, __hmax2(x, y));
  b[t] = __hadd2(b[t], b[t + 32]);
  f[t].x = __low2float(x);
  f[t].y = __high2float(y);
  if (__hgt(__low2half(x), __high2half(y))) f[t].x = 3;
  a[t + 9] = h2exp2(x);
  u[t] = __byte_perm(u[t], u[t + 1], 0x3210) + __dp4a((int)u[t], (int)u[t + 3], 4) + __vadd4(u[t], u[t + 2]) +
         __funnelshift_l(u[t], u[t + 4], 5);
}
__device__ __noinline__ float table(int n, float x) {
  switch (n) {
    case 0:
      return x * 2;
    case 1:
      return sinf(x);
    case 2:
      return x + 9;
    case 3:
      return sqrtf(x);
    case 4:
      return x / 7;
    case 5:
      return expf(x);
    case 6:
      return logf(x);
    case 7:
      return x * x * x;
    default:
      return 1;
  }
}
extern "C" __global__ void cases(const int* n, float* x) {
  x[threadIdx.x] = table(n[threadIdx.x], x[threadIdx.x]);
}
typedef float (*F)(float);
__device__ float fa(float x) { return x + 1; }
__device__ float fb(float x) { return x * 3; }
__device__ F fs[2] = {fa, fb};
extern "C" __global__ void pointers(const int* n, float* x) {
  x[threadIdx.x] = fs[n[threadIdx.x]](x[threadIdx.x]);
}
extern "C" __global__ void spills(float* x, int n) {
  float v[40];
  for (int i = 0; i < 40; ++i) v[i] = x[i];
  for (int i = 0; i < n; ++i) v[(i * 7 + threadIdx.x) % 40] += 1;
  float s = 0;
  for (int i = 0; i < 40; ++i) s += v[i];
  x[threadIdx.x] = s;
}
