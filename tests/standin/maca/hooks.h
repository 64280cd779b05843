// What the stand-in's runtime tells its tools library, and the clock both go by. Nothing here comes from
// MetaX' headers: names, numbers and layouts are those that public code relies on.
#pragma once

#include <cstddef>
#include <cstdint>

struct Dim3 {
  uint32_t x, y, z;
};

// One call as a tool hears of it.
struct CallData {
  uint32_t site;  // 0 at entry, 1 at exit
  const char* name;
  const void* params;
  void* result;
  const char* kernel;
  void* context;
  uint32_t context_id;
  uint64_t* tools_word;
  uint32_t correlation;
};
static_assert(offsetof(CallData, correlation) == 64, "as CUPTI's callback data");

struct Work {
  uint64_t start, end;  // on the stand-in's clock
  const char* name;     // of a kernel
  uint64_t bytes;       // of a copy or set
  uint32_t correlation, stream, value;
  uint8_t copy_kind;
  uint64_t graph_node;
  Dim3 grid, block;
};

struct Hooks {
  void (*call)(uint32_t domain, uint32_t id, const CallData* data);
  void (*kernel)(const Work& work);
  void (*copy)(const Work& work);
  void (*set)(const Work& work);
};

// The tools library puts its functions here when it is loaded.
extern "C" __attribute__((visibility("default"))) Hooks standin_hooks;
// Whether there is a context: what is registered after it hears of nothing.
extern "C" __attribute__((visibility("default"))) bool standin_context();
// The GPU's clock, with the offset and drift asked for in MACA_STANDIN.
extern "C" __attribute__((visibility("default"))) uint64_t standin_clock();
// The number behind `name=` in MACA_STANDIN, or `otherwise`.
extern "C" __attribute__((visibility("default"))) long standin_option(const char* name, long otherwise);
// What the program was told of this id; nullptr for an id that no function has.
extern "C" __attribute__((visibility("default"))) const char* standin_function(uint32_t id);
