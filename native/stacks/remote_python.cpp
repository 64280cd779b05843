#include "stacks/remote_python.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "stacks/elf_file.h"

namespace warpsight {

namespace {

struct Mapping {
  uint64_t start;
  uint64_t offset;
  std::string path;
};

bool parse_mapping(const char* line, Mapping* mapping) {
  uint64_t end;
  int path = 0;
  if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %*s %*s %n", &mapping->start, &end,
             &mapping->offset, &path) < 3 ||
      !path) {
    return false;
  }
  mapping->path = line + path;
  while (!mapping->path.empty() && mapping->path.back() == '\n') mapping->path.pop_back();
  return !mapping->path.empty() && mapping->path[0] == '/';
}

const char* base_name(const std::string& path) { return path.c_str() + path.rfind('/') + 1; }

// 3.10 has no symbol with its version; the file name is libpython3.10.so or python3.10.
uint32_t minor_from_name(const std::string& path) {
  const char* name = strstr(base_name(path), "python3.");
  return name ? static_cast<uint32_t>(atoi(name + strlen("python3."))) : 0;
}

uint32_t remote_minor(const ElfFile& file, uint64_t bias, const Mapping& mapping, const uint8_t* runtime,
                      RemoteMemory* memory) {
  uint64_t hex = described_version(runtime);
  const uint64_t version = hex ? 0 : file.symbol("Py_Version", true);
  if (version) memory->copy_now(bias + version, &hex, sizeof(hex));
  if (hex) return hex >> 24 == 3 ? hex >> 16 & 255 : 0;
  return minor_from_name(mapping.path);
}

// Fills in `python` when the mapped file is an interpreter.
bool try_mapping(pid_t pid, const Mapping& mapping, RemoteMemory* memory, RemotePython* python) {
  ElfFile file;
  const std::string inside = "/proc/" + std::to_string(pid) + "/root" + mapping.path;
  const std::string running = "/proc/" + std::to_string(pid) + "/exe";
  const bool named_python = strstr(base_name(mapping.path), "python") != nullptr;
  if (!file.open(inside.c_str()) && !file.open(running.c_str())) return false;
  const uint64_t runtime = file.symbol("_PyRuntime", named_python);
  const uint64_t code_type = runtime ? file.symbol("PyCode_Type", named_python) : 0;
  const uint64_t mapped = file.address_of_offset(mapping.offset);
  if (!runtime || !code_type || mapped == ~uint64_t{0}) return false;
  const uint64_t bias = mapping.start - mapped;
  python->runtime = bias + runtime;
  python->code_type = bias + code_type;
  uint8_t start[kDebugOffsetsBytes];
  if (!memory->copy_now(python->runtime, start, sizeof(start))) return false;
  const uint32_t minor = remote_minor(file, bias, mapping, start, memory);
  return minor && python_layout(minor, start, &python->layout) == nullptr;
}

}  // namespace

bool find_remote_python(pid_t pid, RemoteMemory* memory, RemotePython* python) {
  const std::string folder = "/proc/" + std::to_string(pid);
  char executable[PATH_MAX];
  const ssize_t length = readlink((folder + "/exe").c_str(), executable, sizeof(executable) - 1);
  if (length < 0) return false;
  executable[length] = 0;
  FILE* maps = fopen((folder + "/maps").c_str(), "re");
  if (!maps) return false;
  char line[PATH_MAX + 128];
  std::string tried;
  bool found = false;
  while (!found && fgets(line, sizeof(line), maps)) {
    Mapping mapping;
    if (!parse_mapping(line, &mapping) || mapping.path == tried) continue;
    if (mapping.path != executable && !strstr(base_name(mapping.path), "libpython3")) continue;
    tried = mapping.path;
    found = try_mapping(pid, mapping, memory, python);
  }
  fclose(maps);
  return found;
}

}  // namespace warpsight
