#include "directives/ranges.h"

#include <stdio.h>

#include <atomic>

#include "runtime/runtime.h"
#include "stacks/stacks.h"

namespace warpsight {
namespace {

constexpr uint8_t kPush = 1, kPop = 2, kStart = 3, kEnd = 4, kInstant = 5;
constexpr uint8_t kUnsigned64 = 1;               // nvtxPayloadType
constexpr uint64_t kOwnIds = uint64_t{1} << 62;  // above those of NVTX's ranges
std::atomic<bool> g_heard[2];                    // by number()
thread_local uint32_t t_depth[2];                // open ranges of this thread, by number()

size_t number(Directives which) { return which == Directives::openacc ? 0 : 1; }

Marker marker(Directives which, uint8_t phase) {
  Marker row = {};
  row.time = now_ns();
  row.phase = phase;
  row.source = static_cast<uint16_t>(which);
  row.domain = intern_c(which == Directives::openacc ? "OpenACC" : "OpenMP");
  return row;
}

void begin(Directives which, uint8_t phase, uint64_t id, uint32_t name, uint32_t attributes) {
  Marker row = marker(which, phase);
  row.id = id;
  row.name = name;
  row.attributes = attributes;
  row.stack = capture_stack();
  write(row);
}

}  // namespace

bool directives_wanted(Directives which) {
  const char* name = which == Directives::openacc ? "openacc" : "openmp";
  for (const std::string& kind : settings().trace) {
    if (kind == name) return true;
  }
  return false;
}

void directives_heard(Directives which) { g_heard[number(which)].store(true, std::memory_order_relaxed); }

void report_unheard_directives() {
  if (directives_wanted(Directives::openmp) && !g_heard[number(Directives::openmp)].load())
    report_loss(
        "openmp",
        "no OpenMP runtime with a tools interface (LLVM's, Intel's and NVIDIA's have one, GCC's has none) "
        "began in this process while it was recorded",
        1, Severity::note);
  if (directives_wanted(Directives::openacc) && !g_heard[number(Directives::openacc)].load())
    report_loss("openacc", "no OpenACC runtime began in this process while it was recorded", 1,
                Severity::note);
}

void begin_directive(Directives which, uint32_t name, uint32_t attributes) {
  const uint32_t depth = t_depth[number(which)]++;
  if (recording()) begin(which, kPush, depth, name, attributes);
}

void end_directive(Directives which) {
  uint32_t& depth = t_depth[number(which)];
  if (depth == 0) return;
  --depth;
  if (!recording()) return;
  Marker row = marker(which, kPop);
  row.id = depth;
  write(row);
}

void begin_directive(Directives which, uint64_t id, uint32_t name, uint32_t attributes) {
  if (recording()) begin(which, kStart, kOwnIds | id, name, attributes);
}

void end_directive(Directives which, uint64_t id) {
  if (!recording()) return;
  Marker row = marker(which, kEnd);
  row.id = kOwnIds | id;
  write(row);
}

void directive_moment(Directives which, uint32_t name, uint32_t attributes, uint64_t payload) {
  if (!recording()) return;
  Marker row = marker(which, kInstant);
  row.name = name;
  row.attributes = attributes;
  row.payload = payload;
  row.payload_type = kUnsigned64;
  row.stack = capture_stack();
  write(row);
}

void add_text(std::string* json, const char* key, const char* value) {
  if (value == nullptr || *value == 0) return;
  *json += *json == "{" ? "\"" : ",\"";
  *json += key;
  *json += "\":\"";
  for (const char* c = value; *c != 0; ++c) {
    if (*c == '"' || *c == '\\') {
      *json += '\\';
      *json += *c;
    } else if (static_cast<unsigned char>(*c) < 0x20) {
      char code[8];
      snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(*c));
      *json += code;
    } else {
      *json += *c;
    }
  }
  *json += '"';
}

void add_number(std::string* json, const char* key, uint64_t value) {
  *json += *json == "{" ? "\"" : ",\"";
  *json += key;
  *json += "\":" + std::to_string(value);
}

}  // namespace warpsight
