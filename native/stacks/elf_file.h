// The little we need of an ELF file: symbols by name and by address, the load bias, the build id.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace warpsight {

class ElfFile {
 public:
  ElfFile() = default;
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // Maps the file; false when it is unreadable or not a 64-bit little-endian ELF file.
  bool open(const char* path);
  bool is_open() const { return bytes_ != nullptr; }

  // Value of a defined symbol, from .dynsym and, if `static_too`, .symtab; 0 if there is no such symbol.
  uint64_t symbol(std::string_view name, bool static_too) const;
  // Name of the function that contains a virtual address (of the file); empty if no function does.
  std::string_view function_at(uint64_t address) const;
  // Calls visit(name, start, size) for every function of both tables.
  template <class Visit>
  void each_function(Visit visit) const;

  // The virtual address that file offset `offset` is loaded at; ~0 when it is not loaded.
  uint64_t address_of_offset(uint64_t offset) const;
  std::string build_id() const;  // hexadecimal, empty if the file has none

 private:
  struct Table {
    const Elf64_Sym* symbols;
    uint64_t count;
    const char* names;
    uint64_t names_bytes;
  };
  template <class T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    return offset <= size_ && count <= (size_ - offset) / sizeof(T)
               ? reinterpret_cast<const T*>(bytes_ + offset)
               : nullptr;
  }
  bool table(uint32_t type, Table* out) const;
  std::string_view name_of(const Table& table, const Elf64_Sym& symbol) const;

  const char* bytes_ = nullptr;
  uint64_t size_ = 0;
};

template <class Visit>
void ElfFile::each_function(Visit visit) const {
  for (uint32_t type : {SHT_DYNSYM, SHT_SYMTAB}) {
    Table symbols;
    if (!table(type, &symbols)) continue;
    for (uint64_t i = 0; i < symbols.count; ++i) {
      const Elf64_Sym& symbol = symbols.symbols[i];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      visit(name_of(symbols, symbol), symbol.st_value, symbol.st_size);
    }
  }
}

}  // namespace warpsight
