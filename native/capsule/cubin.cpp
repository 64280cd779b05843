#include "capsule/cubin.h"

#include <elf.h>

#include <cstring>

namespace warpsight {
namespace {

class Image {
 public:
  Image(const void* bytes, size_t size) : bytes_(static_cast<const char*>(bytes)), size_(size) {}

  // The section headers; empty if the file is damaged.
  std::vector<Elf64_Shdr> sections() {
    Elf64_Ehdr elf;
    if (size_ < sizeof elf) return {};
    memcpy(&elf, bytes_, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64) return {};
    if (elf.e_shentsize != sizeof(Elf64_Shdr) || elf.e_shstrndx >= elf.e_shnum) return {};
    if (!inside(elf.e_shoff, elf.e_shnum * sizeof(Elf64_Shdr))) return {};
    std::vector<Elf64_Shdr> found(elf.e_shnum);
    memcpy(found.data(), bytes_ + elf.e_shoff, found.size() * sizeof found[0]);
    names_ = found[elf.e_shstrndx];
    return found;
  }

  std::string name(const Elf64_Shdr& section) const { return text(names_, section.sh_name); }

  std::string text(const Elf64_Shdr& strings, uint64_t offset) const {
    if (!inside(strings.sh_offset, strings.sh_size) || offset >= strings.sh_size) return "";
    const char* at = bytes_ + strings.sh_offset + offset;
    return std::string(at, strnlen(at, strings.sh_size - offset));
  }

  std::vector<Elf64_Sym> symbols(const Elf64_Shdr& table) const {
    if (!inside(table.sh_offset, table.sh_size)) return {};
    std::vector<Elf64_Sym> found(table.sh_size / sizeof(Elf64_Sym));
    memcpy(found.data(), bytes_ + table.sh_offset, found.size() * sizeof found[0]);
    return found;
  }

 private:
  bool inside(uint64_t offset, uint64_t size) const { return offset <= size_ && size <= size_ - offset; }

  const char* const bytes_;
  const size_t size_;
  Elf64_Shdr names_ = {};
};

}  // namespace

std::vector<CubinVariable> variables_of_cubin(const void* image, size_t size) {
  Image cubin(image, size);
  const std::vector<Elf64_Shdr> sections = cubin.sections();
  std::vector<CubinVariable> found;
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    for (const Elf64_Sym& symbol : cubin.symbols(table)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) continue;
      if (symbol.st_shndx >= sections.size()) continue;
      const std::string place = cubin.name(sections[symbol.st_shndx]);
      const bool constant = place == ".nv.constant3";
      if (!constant && place != ".nv.global" && place != ".nv.global.init") continue;
      const std::string name = cubin.text(sections[table.sh_link], symbol.st_name);
      if (!name.empty()) found.push_back({name, symbol.st_size, constant});
    }
  }
  return found;
}

}  // namespace warpsight
