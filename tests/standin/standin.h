// What the stand-in's parts and the recorded program share.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>

namespace standin {
#pragma GCC visibility push(default)

// The number behind `name=` in STANDIN, or `otherwise`.
long option(const char* name, long otherwise);

// Ends the program: the recorder broke a rule of CUPTI's.
[[noreturn]] void violation(const char* rule);

// Of every call that keeps something for its thread.
void note_caller();
void note_use_of_contexts(const char* function);  // a broken rule once CUPTI has cleaned up in exit()

// A CUDA call as CUPTI's callbacks see it: construct at entry; the destructor is the exit.
class Call {
 public:
  Call(CUpti_CallbackDomain domain, uint32_t cbid, const char* function, const void* params,
       const char* symbol);
  ~Call();
  void set_result(int result) { result_ = result; }
  uint32_t correlation() const { return data_.correlationId; }

 private:
  CUpti_CallbackData data_ = {};
  CUpti_CallbackDomain domain_;
  uint32_t cbid_;
  uint64_t shared_ = 0;
  int result_ = 0;
};

uint64_t now();  // by the clock that the recorder registered

// Records of the calling thread's work.
void record_kernel(const char* name, uint32_t correlation, uint32_t stream, uint64_t graph_node);
void record_copy(uint64_t bytes, uint32_t correlation, uint64_t graph_node = 0);
void record_set(uint64_t bytes, uint32_t correlation, uint64_t graph_node = 0);
void record_sync(uint32_t correlation, uint32_t result);
void record_graph_launch(uint32_t correlation);
void record_device_graph();
void break_down();
void record_external_id(uint32_t correlation, uint64_t id);  // beside the record of the call, as CUPTI does
void complete_everything();  // the GPU has finished: records get their timestamps, but not those of stuck
                             // kernels

// Kernels whose name begins so complete only when they are let go.
constexpr char kStuck[] = "stuck";
void let_stuck_go();
bool anything_stuck();
void stuck_for(long milliseconds);  // negative: for ever
void serve_dump_requests();         // the driver's pipe for core dumps asked for by the user
[[noreturn]] void device_exception();

// Samples of program counters: of a launch, and the checksum of the image that its kernel comes from.
void sample_launch(const char* kernel);
void checksum_image(const void* image, size_t size, const char* const* kernels, size_t count);
uint64_t checksum_of(const char* kernel);
void count_launch(const char* kernel);  // for exact counts and metrics
bool instructions_counted();            // SASS metrics are enabled
void set_capturing(bool capturing);     // a stream captures
bool capturing();

void context_exists();
void resource(CUpti_CallbackIdResource id, void* descriptor, CUstream stream);
bool kind_enabled(CUpti_ActivityKind kind);

#pragma GCC visibility pop
}  // namespace standin
