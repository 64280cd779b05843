// A library of a framework: it links to the runtime, and a program loads it by its own name.
#include "hooks.h"

extern "C" {
int mcMalloc(void**, size_t);
int mcLaunchKernel(const void*, Dim3, Dim3, void**, size_t, void*);
int mcDeviceSynchronize();
__attribute__((visibility("default"))) void framework_step();
}

void framework_step() {
  void* memory = nullptr;
  mcMalloc(&memory, 64);
  mcLaunchKernel("from_framework", {2, 1, 1}, {32, 1, 1}, nullptr, 0, nullptr);
  mcDeviceSynchronize();
}
