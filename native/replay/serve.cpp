#include "replay/serve.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

namespace warpsight::replay {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;  // of one command

bool inside(const Script& script, uint64_t address, uint64_t size) {
  for (const Mapping& mapping : script.mappings)
    if (address >= mapping.address && size <= mapping.size &&
        address - mapping.address <= mapping.size - size)
      return true;
  return false;
}

// The next line, truncated if it is too long for any command; false at the end.
bool read_line(char (&line)[128]) {
  size_t length = 0;
  int next = 0;
  while ((next = getchar()) != EOF && next != '\n')
    if (length < sizeof line - 1) line[length++] = static_cast<char>(next);
  line[length] = 0;
  return next != EOF;
}

class Server {
 public:
  Server(const Driver& driver, const Script& script, Memory* memory, Program* program, Report* report)
      : driver_(driver), script_(script), memory_(*memory), program_(*program), report_(report) {}

  bool answer(const char* line) {
    uint64_t address = 0, size = 0;
    if (strcmp(line, "step") == 0) return step();
    if (strcmp(line, "restart") == 0) return restart();
    if (sscanf(line, "read %" SCNx64 " %" SCNu64, &address, &size) == 2) return read(address, size);
    if (sscanf(line, "write %" SCNx64 " %" SCNu64, &address, &size) == 2) return write(address, size);
    return say("error what", 0, false);
  }

 private:
  bool say(const char* word, uint64_t number, bool with_number = true) {
    if (with_number)
      printf("%s %" PRIu64 "\n", word, number);
    else
      printf("%s\n", word);
    return fflush(stdout) == 0;
  }

  bool step() {
    if (next_ >= program_.operations()) return say("error end", 0, false);
    if (!program_.issue(next_, 0) ||
        !report_->check(driver_, driver_.context_wait(), "running", static_cast<long long>(next_)))
      return say("error failed", 0, false);
    return say("at", ++next_);
  }

  bool restart() {
    if (!memory_.restore() || !program_.restore_globals()) return say("error failed", 0, false);
    next_ = 0;
    return say("at", next_);
  }

  bool read(uint64_t address, uint64_t size) {
    if (size > kMostBytes || !inside(script_, address, size)) return say("error address", 0, false);
    bytes_.resize(size);
    if (driver_.to_host(bytes_.data(), address, size) != CUDA_SUCCESS) return say("error failed", 0, false);
    printf("bytes %" PRIu64 "\n", size);
    return fwrite(bytes_.data(), 1, size, stdout) == size && fflush(stdout) == 0;
  }

  bool write(uint64_t address, uint64_t size) {
    if (size > kMostBytes) return false;
    bytes_.resize(size);
    if (fread(bytes_.data(), 1, size, stdin) != size) return false;
    if (!inside(script_, address, size)) return say("error address", 0, false);
    const bool done = driver_.to_device(address, bytes_.data(), size) == CUDA_SUCCESS;
    return say(done ? "ok" : "error failed", 0, false);
  }

  const Driver& driver_;
  const Script& script_;
  Memory& memory_;
  Program& program_;
  Report* const report_;
  size_t next_ = 0;
  std::vector<unsigned char> bytes_;
};

}  // namespace

bool serve(const Driver& driver, const Script& script, Memory* memory, Program* program, Report* report) {
  Server server(driver, script, memory, program, report);
  char line[128];
  while (read_line(line))
    if (!server.answer(line)) return false;
  return true;
}

}  // namespace warpsight::replay
