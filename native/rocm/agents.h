// Definitions that ROCm's rows refer to: devices, contexts, streams.
//
// HIP has one context per device here, and streams of HIP's own where a call names them. Work that no HIP
// call of the thread is behind belongs to a hardware queue, which then is its stream.
#pragma once

#include <cstdint>

namespace warpsight::rocm {

constexpr uint16_t kNoDevice = 65535;

// Asks the library for its agents; once. False when it has no answer (said in table loss).
bool load_agents();

// The device index of an agent; kNoDevice for a CPU or one that is not known.
uint16_t device_of(uint64_t agent);
inline uint32_t context_of(uint16_t device) { return device == kNoDevice ? 0 : device + 1u; }

// Rows of the devices and their contexts.
void write_devices();

// The id of a HIP stream by its handle: 0 for the default stream, otherwise a number that is not reused after
// the stream is destroyed.
uint32_t stream_id(uint64_t handle);
void forget_stream(uint64_t handle);

// The stream id of a hardware queue.
uint32_t queue_stream(uint64_t queue);

// Writes the row of a device's stream, once. On the thread that reads records.
void note_stream(uint16_t device, uint32_t stream);

}  // namespace warpsight::rocm
