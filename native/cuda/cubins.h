// WARPSIGHT_CUBINS=1 or PC sampling: every cubin the program loads, once, as NAME.warp/cubins/CHECKSUM.cubin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight {

// On the program's thread: copies an image that was not kept before, for write_cubins. Does nothing when off.
void keep_cubin(uint64_t checksum, const void* image, size_t size);

// On the recorder's worker thread: writes what waits. What cannot be written costs a loss row, once.
void write_cubins();

}  // namespace warpsight
