// Definitions the GPU rows refer to: devices, contexts, streams, modules.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <string>

namespace warpsight {

// From activity records, on the worker thread. Each device and context is written once per process.
void write_device(const CUpti_ActivityDevice5& record);
void write_context(const CUpti_ActivityContext3& record);
// From the rows of work: a context that began before the recording has no record of its own, and neither does
// its device.
void note_context(uint32_t context, uint32_t device);
void write_stream(const CUpti_ActivityStream& record);

// From resource callbacks, on the program's threads.
void context_created(CUcontext context);
void stream_created(CUcontext context, CUstream stream);
void stream_destroyed(CUstream stream);
// The driver's id of a GPU or a part of it, the same in all processes; its PCI address if it has none.
std::string device_identity(uint32_t device);
// The device of a context that has a row, all ones if it has none.
uint32_t device_of_context(uint32_t context);

// True once this process has made or shown a CUDA context since libwarpsight was loaded.
bool context_seen();

}  // namespace warpsight
