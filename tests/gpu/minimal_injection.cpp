// The floor of what recording kernels costs: an injection library that asks CUPTI for kernels, copies and
// sets and throws the records away. Build: g++ -O2 -shared -fPIC -I$CUDA/include -o minimal_injection.so
// minimal_injection.cpp -L… -lcupti Use: CUDA_INJECTION64_PATH=$PWD/minimal_injection.so program
#include <cupti.h>

#include <cstdlib>

namespace {

constexpr size_t kBufferBytes = 8 << 20;

void CUPTIAPI requested(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most = 0;
}

void CUPTIAPI completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t) { free(buffer); }

void flush() { cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  cuptiActivityRegisterCallbacks(requested, completed);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  atexit(flush);
  return 1;
}
