#include "stacks/elf_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace warpsight {

ElfFile::~ElfFile() {
  if (bytes_) munmap(const_cast<char*>(bytes_), size_);
}

bool ElfFile::open(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status;
  void* bytes = MAP_FAILED;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size > static_cast<off_t>(sizeof(Elf64_Ehdr))) {
    bytes = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  }
  close(fd);
  if (bytes == MAP_FAILED) return false;
  bytes_ = static_cast<const char*>(bytes);
  size_ = static_cast<uint64_t>(status.st_size);
  if (memcmp(bytes_, ELFMAG, SELFMAG) == 0 && bytes_[EI_CLASS] == ELFCLASS64 &&
      bytes_[EI_DATA] == ELFDATA2LSB) {
    return true;
  }
  munmap(bytes, size_);
  bytes_ = nullptr;
  return false;
}

bool ElfFile::table(uint32_t type, Table* out) const {
  const Elf64_Ehdr* header = at<Elf64_Ehdr>(0);
  const Elf64_Shdr* sections = header ? at<Elf64_Shdr>(header->e_shoff, header->e_shnum) : nullptr;
  if (!sections) return false;
  for (int i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& section = sections[i];
    if (section.sh_type != type || section.sh_link >= header->e_shnum) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    out->count = section.sh_size / sizeof(Elf64_Sym);
    out->symbols = at<Elf64_Sym>(section.sh_offset, out->count);
    out->names = at<char>(names.sh_offset, names.sh_size);
    out->names_bytes = names.sh_size;
    return out->symbols && out->names && names.sh_size && out->names[names.sh_size - 1] == 0;
  }
  return false;
}

std::string_view ElfFile::name_of(const Table& table, const Elf64_Sym& symbol) const {
  return symbol.st_name < table.names_bytes ? std::string_view(table.names + symbol.st_name)
                                            : std::string_view();
}

uint64_t ElfFile::symbol(std::string_view name, bool static_too) const {
  for (uint32_t type : {SHT_DYNSYM, SHT_SYMTAB}) {
    Table symbols;
    if ((type == SHT_SYMTAB && !static_too) || !table(type, &symbols)) continue;
    for (uint64_t i = 0; i < symbols.count; ++i) {
      const Elf64_Sym& symbol = symbols.symbols[i];
      if (symbol.st_shndx != SHN_UNDEF && name_of(symbols, symbol) == name) return symbol.st_value;
    }
  }
  return 0;
}

std::string_view ElfFile::function_at(uint64_t address) const {
  std::string_view best;
  each_function([&](std::string_view name, uint64_t start, uint64_t size) {
    if (best.empty() && address >= start && address < start + size) best = name;
  });
  return best;
}

uint64_t ElfFile::address_of_offset(uint64_t offset) const {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const Elf64_Ehdr* header = at<Elf64_Ehdr>(0);
  const Elf64_Phdr* segments = header ? at<Elf64_Phdr>(header->e_phoff, header->e_phnum) : nullptr;
  for (int i = 0; segments && i < header->e_phnum; ++i) {
    const Elf64_Phdr& segment = segments[i];
    // A mapping starts at the page of the segment's first byte, which may be a little before it: up to 64 KiB
    // on some aarch64 kernels.
    const uint64_t start = segment.p_offset & ~(page - 1);
    if (segment.p_type != PT_LOAD || offset < start || offset >= segment.p_offset + segment.p_filesz)
      continue;
    return segment.p_vaddr - segment.p_offset + offset;
  }
  return ~uint64_t{0};
}

std::string ElfFile::build_id() const {
  const Elf64_Ehdr* header = at<Elf64_Ehdr>(0);
  const Elf64_Phdr* segments = header ? at<Elf64_Phdr>(header->e_phoff, header->e_phnum) : nullptr;
  for (int i = 0; segments && i < header->e_phnum; ++i) {
    if (segments[i].p_type != PT_NOTE) continue;
    uint64_t offset = segments[i].p_offset;
    const uint64_t end = offset + segments[i].p_filesz;
    while (const Elf64_Nhdr* note = offset < end ? at<Elf64_Nhdr>(offset) : nullptr) {
      const uint64_t name = offset + sizeof(Elf64_Nhdr);
      const uint64_t data = name + ((note->n_namesz + 3) & ~3u);
      const uint8_t* id = at<uint8_t>(data, note->n_descsz);
      if (note->n_type == NT_GNU_BUILD_ID && id && note->n_namesz == 4 && at<char>(name, 4) &&
          memcmp(at<char>(name, 4), "GNU", 4) == 0) {
        std::string text;
        for (uint32_t byte = 0; byte < note->n_descsz && byte < 64; ++byte) {
          text += "0123456789abcdef"[id[byte] >> 4];
          text += "0123456789abcdef"[id[byte] & 15];
        }
        return text;
      }
      offset = data + ((note->n_descsz + 3) & ~3u);
    }
  }
  return {};
}

}  // namespace warpsight
