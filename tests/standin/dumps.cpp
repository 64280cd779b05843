// Stuck kernels, and the driver's GPU core dumps: its pipe, its progress lines, its file, its end of the
// program.
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "standin.h"

namespace {

std::atomic<int64_t> g_stuck_until{0};  // ns; 0 nothing is stuck, -1 for ever
std::atomic<bool> g_dump_taken{false};

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

bool enabled(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && strcmp(value, "1") == 0;
}

// A template of the driver: %h host, %p process, %t time.
std::string expanded(const char* variable, const char* otherwise) {
  const char* text = getenv(variable);
  std::string out;
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  for (const char* at = text != nullptr ? text : otherwise; *at != 0; ++at) {
    if (*at != '%') {
      out += *at;
      continue;
    }
    ++at;
    out += *at == 'h' ? host : *at == 'p' ? std::to_string(getpid()) : std::to_string(time(nullptr));
  }
  return out;
}

void say(const char* text) {
  if (enabled("CUDA_COREDUMP_SHOW_PROGRESS")) fprintf(stderr, "[00:00:00.000000] coredump: %s\n", text);
}

// A copy of the file named in STANDIN_DUMP, else an ELF file with nothing but a section table.
void write_dump() {
  const std::string path = expanded("CUDA_COREDUMP_FILE", "core.cuda.%h.%p");
  say(("Writing ELF file to " + path).c_str());
  FILE* out = fopen(path.c_str(), "wb");
  if (out == nullptr) return;
  const char* model = getenv("STANDIN_DUMP");
  if (FILE* in = model != nullptr ? fopen(model, "rb") : nullptr) {
    char bytes[65536];
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, in)) != 0;) fwrite(bytes, 1, count, out);
    fclose(in);
  } else {
    Elf64_Ehdr header = {};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_CORE;
    header.e_machine = 0xbe;
    header.e_shoff = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 1;
    const Elf64_Shdr none = {};
    fwrite(&header, sizeof header, 1, out);
    fwrite(&none, sizeof none, 1, out);
  }
  fclose(out);
  say("All done (took 00s)");
}

void serve(const std::string& path) {
  const int pipe =
      open(path.c_str(), O_RDWR | O_CLOEXEC);  // as reader and writer: no end of file between requests
  char byte = 0;
  if (pipe < 0 || read(pipe, &byte, 1) != 1) return;
  write_dump();
  unlink(path.c_str());
  const char* flags = getenv("CUDA_COREDUMP_GENERATION_FLAGS");
  if (flags == nullptr || strstr(flags, "skip_abort") == nullptr) abort();
  g_dump_taken = true;
  g_stuck_until = 0;
}

}  // namespace

bool dump_taken() { return g_dump_taken; }

namespace standin {

bool anything_stuck() {
  const int64_t until = g_stuck_until;
  return until < 0 || now_ns() < until;
}

void stuck_for(long milliseconds) {
  g_stuck_until = milliseconds < 0 ? -1 : now_ns() + milliseconds * 1000000;
}

void let_stuck_go() { g_stuck_until = 0; }

void serve_dump_requests() {
  static std::atomic<bool> serving{false};
  if (!enabled("CUDA_ENABLE_USER_TRIGGERED_COREDUMP") || serving.exchange(true)) return;
  const std::string path = expanded("CUDA_COREDUMP_PIPE", "corepipe.cuda.%h.%p");
  if (mkfifo(path.c_str(), 0600) != 0) return;
  std::thread(serve, path).detach();
}

void device_exception() {
  if (enabled("CUDA_ENABLE_COREDUMP_ON_EXCEPTION")) {
    write_dump();
    abort();
  }
  exit(1);
}

}  // namespace standin
