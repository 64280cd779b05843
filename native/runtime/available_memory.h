// How much memory of the host is free for us.
#pragma once

#include <cstdint>

namespace warpsight {

// Bytes that can be had without swapping and within the memory limit of this process's cgroup; 0 when
// unknown.
uint64_t available_memory();

}  // namespace warpsight
