// What we know about the program's OpenCL objects. Also maintained while nothing is recorded, so that a
// recording that begins late can describe existing ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "functions.h"
#include "handles.h"

namespace warpsight {

// Ids that cannot meet those of a CUDA recorder in the same process.
constexpr uint32_t kFirstClDevice = 256;
constexpr uint32_t kFirstClContext = 0x40000000;
constexpr uint32_t kFirstClModule = 0x40000000;

struct ClDevice {
  cl_device_id handle;
  uint16_t index;
  DeviceClock* clock;
  uint32_t announced;  // recording in which its Device row was written
};

struct ClContext {
  uint32_t id;
  uint16_t device;  // index of its first device
  uint32_t announced;
};

struct ClQueue {
  cl_command_queue handle;
  uint32_t id;
  uint32_t context;
  ClDevice* device;
  bool profiled;                             // its events carry timestamps
  bool hidden;                               // requested by us, not by the program
  cl_command_queue_properties properties;    // as the program asked
  std::vector<cl_queue_properties>* listed;  // the program's property list; nullptr: none given
  int32_t references;                        // the program's, protected by the map's lock
  std::atomic<int32_t> pending;              // commands whose end we have not heard of
  uint32_t announced;
};

struct ClKernel {
  char* name;
  uint32_t module;
  bool wanted;                       // by WARPSIGHT_KERNELS
  std::atomic<uint32_t> warm_shape;  // shape of its newest completed launch
  cl_device_id measured;             // device that the three sizes below are for
  uint32_t local_static;             // bytes
  uint32_t private_bytes;
  uint32_t required[3];                                       // reqd_work_group_size, 0: none
  uint32_t local_dynamic;                                     // sum over __local arguments
  std::vector<std::pair<cl_uint, uint32_t>> local_arguments;  // index, bytes
};

// Devices by root device: a sub-device shares its parent's row and clock.
ClDevice* find_device(cl_device_id device);
void each_device(void (*visit)(ClDevice&));

ClContext* note_context(cl_context context, cl_device_id device);
ClContext* find_context(cl_context context);  // nullptr for one we never saw

// Registers a queue. `asked` are the properties the program wanted, `listed` its list or nullptr.
ClQueue* note_queue(cl_command_queue queue, cl_context context, cl_device_id device,
                    cl_command_queue_properties asked, bool added, std::vector<cl_queue_properties>* listed);
// The queue, registered on the spot when it was created past us (an extension function); nullptr when it is
// invalid.
ClQueue* find_queue(cl_command_queue queue);
ClQueue* known_queue(cl_command_queue queue);
// Whether the program must not see timestamps of this queue's events, and the end of that.
bool hides_timestamps(cl_command_queue queue);
void show_timestamps(ClQueue* queue);
void retain_queue(cl_command_queue queue);
// Call before passing on the program's own release. Keeps the queue until its events have completed.
void release_queue(cl_command_queue queue);
// Gives back queues that only we still held. Not from an event callback.
void reap_queues();
// Flushes every queue with outstanding commands, so that they can end.
void flush_queues();

void note_kernel(cl_kernel kernel, uint32_t module);
ClKernel* find_kernel(cl_kernel kernel);

// Writes Device, Context and Stream rows of everything that this recording has not described yet.
void announce_objects();

}  // namespace warpsight
