#include "runtime/available_memory.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>

namespace warpsight {
namespace {

// The number after `name` in a file of lines "name number"; `name` "" for a file that holds one number alone.
bool number_in(const char* path, const char* name, uint64_t* found) {
  FILE* const file = fopen(path, "re");
  if (file == nullptr) return false;
  char line[256];
  bool is_there = false;
  const size_t length = strlen(name);
  while (!is_there && fgets(line, sizeof line, file) != nullptr) {
    unsigned long long value;
    is_there = strncmp(line, name, length) == 0 && sscanf(line + length, " %llu", &value) == 1;
    if (is_there) *found = value;
  }
  fclose(file);
  return is_there;
}

// What the limit leaves; pages of files are given back on demand.
uint64_t left_of(const char* limit, const char* used, const char* details, const char* files) {
  uint64_t most, now, cached = 0;
  if (!number_in(limit, "", &most) || !number_in(used, "", &now)) return ~0ull;
  number_in(details, files, &cached);
  now -= std::min(now, cached);
  return most - std::min(most, now);
}

}  // namespace

uint64_t available_memory() {
  uint64_t kibibytes = 0;
  if (!number_in("/proc/meminfo", "MemAvailable:", &kibibytes)) return 0;
  const uint64_t v2 = left_of("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                              "/sys/fs/cgroup/memory.stat", "inactive_file ");
  const uint64_t v1 =
      left_of("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
              "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file ");
  return std::min({kibibytes << 10, v2, v1});
}

}  // namespace warpsight
