// One enqueued command from its call to its end: the part every clEnqueue* wrapper shares.
#pragma once

#include <cstdint>

#include "../runtime/runtime.h"
#include "../stacks/stacks.h"
#include "objects.h"
#include "recorder.h"

namespace warpsight {

// The row that a completed command leaves.
enum class Work : uint8_t { none, kernel, copy, fill };

// CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, which the layout uses for every backend.
enum CopyKind : uint8_t {
  kCopyUnknown = 0,
  kHtoD = 1,
  kDtoH = 2,
  kHtoA = 3,
  kAtoH = 4,
  kAtoA = 5,
  kAtoD = 6,
  kDtoA = 7,
  kDtoD = 8,
  kHtoH = 9
};
enum MemoryKind : uint8_t {
  kMemoryUnknown = 0,
  kPageable = 1,
  kPinned = 2,
  kDeviceMemory = 3,
  kArray = 4,
  kManaged = 5
};

// A wrapper's knowledge about its call.
struct Request {
  ClFunction function;
  cl_command_queue queue;
  cl_uint wait_count = 0;
  const cl_event* waits = nullptr;
  bool blocking = false;
  bool ends_before_return = false;  // a blocking call that returns after the command has completed
  Work work = Work::none;
  uint64_t bytes = 0;
  uint32_t value = 0;  // pattern of a fill
  CopyKind copy = kCopyUnknown;
  MemoryKind source = kMemoryUnknown;  // of a fill: the memory's kind
  MemoryKind destination = kMemoryUnknown;
  const char* name = nullptr;  // of a launch
  ClKernel* kernel = nullptr;
  uint32_t shape = 0;
  uint32_t module = 0;
};

// State of one call between its entry and its return.
class EnqueueCall {
 public:
  EnqueueCall(const Request& request, cl_event* program_event);

  // Where the command's event goes: the program's variable, ours, or nowhere.
  cl_event* event() { return place_; }
  // To be called with the result; `result` is returned to the program unchanged.
  void finish(cl_int result);

 private:
  void write_api(cl_int result, uint64_t returned, uint32_t stack, uint32_t name) const;

  const Request& request_;
  cl_event* place_;
  cl_event own_ = nullptr;
  bool timed_ = false;  // its end leaves a row
  ClQueue* queue_ = nullptr;
  uint32_t correlation_;
  uint64_t entry_;
};

// Passes the call on and records it. `call` takes the place of the event and returns the API's result.
template <class Call>
inline cl_int record_enqueue(const Request& request, cl_event* event, Call call) {
  EnqueueCall state(request, event);
  cl_int result = call(state.event());
  state.finish(result);
  return result;
}

// A call that is not an enqueue: one Api row when wanted, and its correlation id (0 when not recorded).
struct HostCall {
  explicit HostCall(ClFunction function, uint64_t object = 0, uint64_t bytes = 0);
  // Writes the Api row. `stack` may have been taken by the caller already.
  void finish(cl_int result);
  uint32_t stack();

  ClFunction function;
  uint32_t correlation;
  uint64_t entry;
  uint64_t returned = 0;
  uint64_t object;
  uint64_t bytes;
  uint32_t stack_id = 0;
  bool stack_taken = false;
};

void write_sync(uint32_t type, uint32_t correlation, const ClQueue* queue, uint64_t start, uint64_t end,
                cl_int result);

// Dependencies: the command that an event represents.
void mark_event(cl_event event, uint32_t correlation);
void write_flows(cl_uint count, const cl_event* events, uint32_t correlation);

int32_t outstanding_commands();
// Of these, launches of a kernel and shape that have never completed: the driver may be compiling for them.
int32_t cold_commands();

}  // namespace warpsight
