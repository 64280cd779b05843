// The kernels a cubin holds, read from its ELF section headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpsight {

// Calls `found(context, name, code)` for every kernel: each has a section `.text.NAME` with its code, as do
// separately compiled functions. False if the image is not a valid 64-bit ELF file. Reads at most 65,535
// section headers.
bool kernels_of_cubin(const void* image, size_t size,
                      void (*found)(void* context, std::string_view name, std::string_view code),
                      void* context);

// Calls `found(context, name, bytes)` for every section whose name begins with `prefix`, without it.
bool sections_of_cubin(const void* image, size_t size, std::string_view prefix,
                       void (*found)(void* context, std::string_view name, std::string_view bytes),
                       void* context);

// The number in `sm_90`; 0 unless it is a valid ELF file.
uint32_t architecture_of_cubin(const void* image, size_t size);

}  // namespace warpsight
