// A vector load from an address that is four bytes off.
#include "check.cuh"

__device__ __forceinline__ float4 load_vector(const char* bytes) {
  return *reinterpret_cast<const float4*>(bytes);  // @load
}

__global__ void misaligned_address(const char* bytes, float* out, int offset) {
  float4 value = load_vector(bytes + 16 * threadIdx.x + offset);  // @kernel
  out[threadIdx.x] = value.x + value.y + value.z + value.w;
}

int main() {
  misaligned_address<<<1, 32>>>(zeroed<char>(1024), zeroed<float>(32), 4);
  return finish();
}
