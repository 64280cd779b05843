// The kernels a cubin holds, read from its ELF section headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpsight {

// Calls `found(context, name, code)` for every kernel: each has a section `.text.NAME` with its code, and so
// have functions that are compiled apart. False when the image is no sound 64-bit ELF file. Looks at 65,535
// section headers at most.
bool kernels_of_cubin(const void* image, size_t size,
                      void (*found)(void* context, std::string_view name, std::string_view code),
                      void* context);

// Calls `found(context, name, bytes)` for every section whose name begins with `prefix`, without it.
bool sections_of_cubin(const void* image, size_t size, std::string_view prefix,
                       void (*found)(void* context, std::string_view name, std::string_view bytes),
                       void* context);

// The number in `sm_90`; 0 for what is no sound ELF file.
uint32_t architecture_of_cubin(const void* image, size_t size);

}  // namespace warpsight
