#include "cuda/cubin_names.h"

#include <elf.h>

#include <cstring>

namespace warpsight {
namespace {

constexpr std::string_view kPrefix = ".text.";

// Whether `count` items of `item` bytes at `offset` are within `size` bytes.
bool inside(uint64_t offset, uint64_t count, uint64_t item, size_t size) {
  return offset <= size && count <= (size - offset) / item;
}

Elf64_Shdr header_at(const char* image, const Elf64_Ehdr& elf, uint32_t index) {
  Elf64_Shdr header;
  memcpy(&header, image + elf.e_shoff + static_cast<uint64_t>(index) * sizeof header, sizeof header);
  return header;
}

}  // namespace

bool kernels_of_cubin(const void* image, size_t size,
                      void (*found)(void* context, std::string_view name, std::string_view code),
                      void* context) {
  return sections_of_cubin(image, size, kPrefix, found, context);
}

bool sections_of_cubin(const void* image, size_t size, std::string_view prefix,
                       void (*found)(void* context, std::string_view name, std::string_view bytes),
                       void* context) {
  const char* const bytes = static_cast<const char*>(image);
  Elf64_Ehdr elf;
  if (bytes == nullptr || size < sizeof elf) return false;
  memcpy(&elf, bytes, sizeof elf);
  if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64) return false;
  if (elf.e_shentsize != sizeof(Elf64_Shdr) || elf.e_shnum == 0) return false;
  if (!inside(elf.e_shoff, elf.e_shnum, sizeof(Elf64_Shdr), size) || elf.e_shstrndx >= elf.e_shnum)
    return false;
  const Elf64_Shdr names = header_at(bytes, elf, elf.e_shstrndx);
  if (!inside(names.sh_offset, names.sh_size, 1, size)) return false;
  for (uint32_t i = 0; i < elf.e_shnum; ++i) {
    const Elf64_Shdr section = header_at(bytes, elf, i);
    if (section.sh_name >= names.sh_size) continue;
    const char* text = bytes + names.sh_offset + section.sh_name;
    const std::string_view name(text, strnlen(text, names.sh_size - section.sh_name));
    if (name.size() <= prefix.size() || name.substr(0, prefix.size()) != prefix) continue;
    const bool whole = section.sh_type != SHT_NOBITS && inside(section.sh_offset, section.sh_size, 1, size);
    found(context, name.substr(prefix.size()),
          whole ? std::string_view(bytes + section.sh_offset, section.sh_size) : std::string_view());
  }
  return true;
}

uint32_t architecture_of_cubin(const void* image, size_t size) {
  constexpr unsigned char kNewAbi = 0x41;  // since CUDA 13: the number is higher
  Elf64_Ehdr elf;
  if (image == nullptr || size < sizeof elf) return 0;
  memcpy(&elf, image, sizeof elf);
  if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return elf.e_ident[EI_OSABI] == kNewAbi ? elf.e_flags >> 8 & 0xffff : elf.e_flags & 0xff;
}

}  // namespace warpsight
