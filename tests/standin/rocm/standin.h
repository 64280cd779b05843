// What the stand-in's two libraries and the recorded program share. The structs are written from
// rocprofiler-sdk's documentation once more, apart from the recorder's, so that a slip in either shows.
#pragma once

#include <cstddef>
#include <cstdint>

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))

struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
};
using hipError_t = int;
using hipStream_t = void*;
using hipEvent_t = void*;

// How libamdhip64's stand-in tells librocprofiler-sdk's of the program's calls; looked up by name.
struct Hooks {
  void (*initialize)();
  // A call: its name and arguments; what enter returns goes to leave.
  void* (*enter)(const char* domain, const char* name, const void* arguments, size_t bytes);
  void (*leave)(void* call, const void* result, size_t bytes);
  void (*dispatch)(const char* kernel, dim3 grid, dim3 block, uint32_t shared, void* stream, int device);
  void (*copy)(int direction, uint64_t bytes, void* stream, int source, int destination);
  void (*complete)();   // the GPU has finished everything but stuck kernels
  bool (*listening)();  // somebody has started a context that hears of kernels
  bool (*delivered)();  // every record of finished work has been handed over
};

// The number behind `name=` in ROCM_STANDIN, or `otherwise`.
long option(const char* name, long otherwise);
