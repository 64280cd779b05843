// Kernels whose every access is known beforehand; prints where their buffers are as JSON (check_events.py).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                \
  if (cudaError_t error = (call); error != cudaSuccess) {          \
    fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
    return 1;                                                      \
  }

__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void strided(const float* a, float* c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i * 33];
}

__global__ void transpose(const float* in, float* out, unsigned long long* base) {
  __shared__ float tile[32][33];
  if (threadIdx.x == 0 && threadIdx.y == 0 && blockIdx.x == 0) *base = __cvta_generic_to_shared(tile);
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void conflicted(const float* in, float* out) {
  __shared__ float tile[32][32];
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void gather(const int* index, const double* a, double* c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[index[i]];
}

__global__ void vectors(const float4* a, float4* c, const unsigned char* bytes, unsigned char* out) {
  const int i = threadIdx.x;
  c[i] = a[i];
  out[i] = bytes[i];
}

__global__ void histogram(const int* index, unsigned* bins, unsigned long long* base) {
  __shared__ unsigned local[64];
  if (threadIdx.x == 0 && blockIdx.x == 0) *base = __cvta_generic_to_shared(local);
  if (threadIdx.x < 64) local[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&local[index[blockIdx.x * blockDim.x + threadIdx.x] % 64], 1u);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

// Many accesses for a measurement of cost: `times` passes over n floats.
__global__ void stream(const float* a, float* c, size_t n) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    c[i] = a[i] * 2;
}

__global__ void faulty(const float* a, float* c) { c[threadIdx.x] = a[threadIdx.x]; }

template <class T>
T* filled(size_t count, const std::vector<T>& values) {
  T* device = nullptr;
  cudaMalloc(&device, count * sizeof(T));
  cudaMemset(device, 0, count * sizeof(T));
  if (!values.empty()) cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}

int measure(size_t n, int times) {
  float *a = nullptr, *c = nullptr;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&c, n * sizeof(float)));
  CHECK(cudaMemset(a, 0, n * sizeof(float)));
  stream<<<528, 256>>>(a, c, n);
  CHECK(cudaDeviceSynchronize());
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin));
  for (int i = 0; i < times; ++i) stream<<<528, 256>>>(a, c, n);
  CHECK(cudaEventRecord(end));
  CHECK(cudaDeviceSynchronize());
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  printf("{\"n\": %zu, \"times\": %d, \"us\": %.2f}\n", n, times, ms * 1000 / times);
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "fault") == 0) {
    faulty<<<1, 32>>>(filled<float>(32, {}), nullptr);
    CHECK(cudaDeviceSynchronize());
  }
  if (argc > 3 && strcmp(argv[1], "measure") == 0)
    return measure(strtoull(argv[2], nullptr, 0), atoi(argv[3]));
  std::vector<float> floats(33 * 512);
  std::vector<double> doubles(1024);
  std::vector<int> index(512);
  std::vector<unsigned char> bytes(64);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = 0.25f * i;
  for (size_t i = 0; i < doubles.size(); ++i) doubles[i] = 3.0 * i;
  for (size_t i = 0; i < index.size(); ++i) index[i] = (i * 7919 + 13) % 1024;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = 3 * i;
  float* a = filled(floats.size(), floats);
  float* b = filled(floats.size(), floats);
  float* c = filled<float>(4096, {});
  double* d = filled(doubles.size(), doubles);
  double* e = filled<double>(512, {});
  int* x = filled(index.size(), index);
  unsigned char* small = filled(bytes.size(), bytes);
  unsigned char* out = filled<unsigned char>(64, {});
  unsigned* bins = filled<unsigned>(64, {});
  unsigned long long* bases = filled<unsigned long long>(2, {});
  add<<<4, 128>>>(a, b, c, 500);
  strided<<<2, 128>>>(a, c);
  transpose<<<1, dim3(32, 32)>>>(a, c, bases);
  conflicted<<<1, dim3(32, 32)>>>(a, c);
  gather<<<4, 128>>>(x, d, e);
  vectors<<<1, 64>>>(reinterpret_cast<float4*>(a), reinterpret_cast<float4*>(c), small, out);
  histogram<<<4, 128>>>(x, bins, bases + 1);
  CHECK(cudaDeviceSynchronize());
  unsigned long long shared[2];
  CHECK(cudaMemcpy(shared, bases, sizeof shared, cudaMemcpyDeviceToHost));
  printf(
      "{\"a\": %llu, \"b\": %llu, \"c\": %llu, \"d\": %llu, \"e\": %llu, \"index\": %llu, \"bytes\": %llu, "
      "\"out\": %llu, "
      "\"bins\": %llu, \"bases\": %llu, \"tile\": %llu, \"local\": %llu}\n",
      (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)d,
      (unsigned long long)e, (unsigned long long)x, (unsigned long long)small, (unsigned long long)out,
      (unsigned long long)bins, (unsigned long long)bases, shared[0], shared[1]);
  return 0;
}
