// clang-format off: a golden recording has these line numbers.
// Kernels with known executions, lanes and sectors: known [REPETITIONS], each launched so often (3); known.py has the numbers.
#include <cstdio>
#include <cstdlib>

// FFMA: once per trip.
__global__ void trips(float* out, int count) {
  float value = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < count; ++i) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(value));
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// POPC ten times by 8 lanes of each warp, BREV five times by the other 24.
__global__ void diverge(unsigned* out, int many, int few) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = thread;
  if ((thread & 31) < 8) {
#pragma unroll 1
    for (int i = 0; i < many; ++i) asm volatile("popc.b32 %0, %0;" : "+r"(value));
  } else {
#pragma unroll 1
    for (int i = 0; i < few; ++i) asm volatile("brev.b32 %0, %0;" : "+r"(value));
  }
  out[thread] = value;
}

// STG of even lanes alone, then of all; the second keeps the compiler from leaving early instead.
__global__ void predicated(unsigned* out) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile(
      "{ .reg .pred even; .reg .u32 bit; and.b32 bit, %1, 1; setp.eq.u32 even, bit, 0; @even st.global.u32 [%0], %1; }" ::"l"(
          out + thread),
      "r"(thread)
      : "memory");
  out[thread + 4096] = thread;
}

// LDG of 4 bytes from every STRIDE-th word: 4 sectors a warp side by side, 32 from stride 8 on.
template <int STRIDE>
__global__ void strided(unsigned* out, const unsigned* in) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  out[thread] = in[thread * STRIDE];
}

// LDS with STRIDE words between lanes: one wavefront without conflicts, 32 where all lanes use one bank.
template <int STRIDE>
__global__ void banks(unsigned* out) {
  __shared__ volatile unsigned words[1024];
  words[threadIdx.x * STRIDE] = threadIdx.x;
  __syncwarp();
  unsigned value = words[threadIdx.x * STRIDE];
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? atoi(argv[1]) : 3;
  unsigned *in, *out;
  if (cudaMalloc(&in, 1 << 20) != cudaSuccess || cudaMalloc(&out, 1 << 20) != cudaSuccess) return 2;
  for (int i = 0; i < repetitions; ++i) {
    trips<<<4, 128>>>(reinterpret_cast<float*>(out), 100);
    diverge<<<2, 64>>>(out, 10, 5);
    predicated<<<2, 64>>>(out);
    strided<1><<<2, 64>>>(out, in);
    strided<8><<<2, 64>>>(out, in);
    strided<32><<<2, 64>>>(out, in);
    banks<1><<<1, 32>>>(out);
    banks<32><<<1, 32>>>(out);
  }
  const cudaError_t result = cudaDeviceSynchronize();
  if (result != cudaSuccess) printf("%s\n", cudaGetErrorString(result));
  return result != cudaSuccess;
}
