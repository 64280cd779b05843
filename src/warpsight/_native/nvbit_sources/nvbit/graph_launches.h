// The launches of graphs' kernels in a context, as they are told to the device (shapes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvbit/tool_format.h"

namespace warpsight {

// Used under the tracer's lock.
class GraphLaunches {
 public:
  static constexpr size_t kHostWords = WS_SHAPES * (3 + WS_SHAPE_LAUNCHES), kDeviceWords = 3 * WS_SHAPES;

  enum class Added { kGood, kNoPlace, kLate };

  // Zeroed memory: of the host, the same as the device sees it, and of the device.
  WsShapes place(uint64_t* host, unsigned long long* host_from_device, unsigned long long* device);
  // The next launch of a shape, before the driver has it; `what` its code is given. Waits while too many
  // are on their way; late: it has waited for a second in vain.
  Added add(uint64_t key, uint64_t what);

 private:
  uint64_t* keys_ = nullptr;
  uint64_t* counts_ = nullptr;
  uint64_t* begun_ = nullptr;
  uint64_t* launches_ = nullptr;
};

}  // namespace warpsight
