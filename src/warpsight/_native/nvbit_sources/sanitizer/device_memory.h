// Device memory of a context, as the interface gives it that a tool stands on.
#pragma once

#include <cstddef>

namespace warpsight {

// Results are the interface's own; 0 is success. `stream`: its handle of a stream, in whose order it happens.
class DeviceMemory {
 public:
  virtual int alloc(void** made, size_t bytes) = 0;
  virtual int clear(void* at, size_t bytes, void* stream) = 0;
  virtual int copy(void* to, const void* from, size_t bytes, void* stream) = 0;

 protected:
  ~DeviceMemory() = default;
};

}  // namespace warpsight
