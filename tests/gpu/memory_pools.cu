// Stream-ordered allocations. Prints "OPERATION ADDRESS BYTES POOL", numbers in hexadecimal, in order.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call) check(static_cast<int>(call), #call)

namespace {

void check(int code, const char* call) {
  if (code != 0) fprintf(stderr, "%s: %d\n", call, code), exit(1);
}

void told(const char* operation, const void* address, size_t bytes, const void* pool) {
  printf("%s %llx %zx %llx\n", operation, reinterpret_cast<unsigned long long>(address), bytes,
         reinterpret_cast<unsigned long long>(pool));
}

}  // namespace

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaMemPool_t standard, own;
  CHECK(cudaDeviceGetMemPool(&standard, 0));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&own, &properties)), told("pool_create", own, 0, own);
  void *first, *second, *third;
  CHECK(cudaMallocAsync(&first, 1 << 20, stream)), told("allocate", first, 1 << 20, standard);
  CHECK(cudaMallocFromPoolAsync(&second, 1 << 16, own, stream)), told("allocate", second, 1 << 16, own);
  CHECK(cudaFreeAsync(first, stream)), told("free", first, 0, standard);
  CHECK(cudaFreeAsync(second, stream)), told("free", second, 0, own);
  CHECK(cudaDeviceSetMemPool(0, own));
  CHECK(cudaMallocAsync(&third, 4096, stream)), told("allocate", third, 4096, own);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaFree(third)), told("free", third, 0, own);
  CHECK(cudaDeviceSetMemPool(0, standard));
  CHECK(cudaMemPoolTrimTo(own, 0)), told("pool_trim", own, 0, own);
  CHECK(cudaMemPoolDestroy(own)), told("pool_destroy", own, 0, own);
  return 0;
}
