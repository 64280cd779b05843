// A module's image: an ELF file with a section for each kernel, as a cubin has them.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

namespace standin {

// `filling` makes images with the same kernels differ.
inline std::string cubin(const std::vector<std::string>& kernels, char filling) {
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);  // the null section
  const auto add = [&](const std::string& name, uint64_t flags) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<Elf64_Word>(names.size());
    section.sh_type = SHT_PROGBITS;
    section.sh_flags = flags;
    names += name + '\0';
    sections.push_back(section);
  };
  for (const std::string& kernel : kernels) {
    add(".text." + kernel, SHF_ALLOC | SHF_EXECINSTR);
    add(".nv.info." + kernel, 0);
  }
  add(".shstrtab", 0);
  Elf64_Ehdr elf = {};
  memcpy(elf.e_ident, ELFMAG, SELFMAG);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.e_shentsize = sizeof(Elf64_Shdr);
  elf.e_shnum = static_cast<Elf64_Half>(sections.size());
  elf.e_shstrndx = static_cast<Elf64_Half>(sections.size() - 1);
  elf.e_shoff = sizeof elf + 64;
  sections.back().sh_offset = elf.e_shoff + sections.size() * sizeof(Elf64_Shdr);
  sections.back().sh_size = names.size();
  std::string out(reinterpret_cast<const char*>(&elf), sizeof elf);
  out += std::string(64, filling);
  out.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
  return out + names;
}

}  // namespace standin
