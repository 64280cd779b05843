// The kernels a cubin holds, read from its ELF section headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpsight {

// Calls `found(context, name)` for every kernel: each has a section `.text.NAME`. False when the image is no
// sound 64-bit ELF file. Looks at section headers and names only, and at most at 65,535 of them.
bool kernels_of_cubin(const void* image, size_t size, void (*found)(void* context, std::string_view name),
                      void* context);

}  // namespace warpsight
