#include "runtime/kernel_filter.h"

#include <cxxabi.h>
#include <fnmatch.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint32_t kRemembered = 1 << 16;  // name ids beyond it are decided again each time
constexpr size_t kMostPatterns = 64;       // bits of g_matched

enum Decision : uint8_t { kUnknown, kWanted, kUnwanted };

std::atomic<uint8_t> g_decisions[kRemembered];  // by name id; a race decides twice, with one answer
std::atomic<uint64_t> g_matched{0};             // bit i: pattern i has matched a kernel

bool matches(const char* name) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const auto& patterns = settings().kernels;
  bool wanted = false;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const char* pattern = patterns[i].c_str();
    if (fnmatch(pattern, name, 0) != 0 && (demangled == nullptr || fnmatch(pattern, demangled, 0) != 0))
      continue;
    wanted = true;
    if (i < kMostPatterns) g_matched.fetch_or(1ull << i, std::memory_order_relaxed);
  }
  free(demangled);
  return wanted;
}

}  // namespace

bool kernels_filtered() { return !settings().kernels.empty(); }

bool kernel_wanted(uint32_t name_id, const char* name) {
  if (name == nullptr) return false;
  if (name_id == 0 || name_id >= kRemembered) return matches(name);
  const uint8_t known = g_decisions[name_id].load(std::memory_order_relaxed);
  if (known != kUnknown) return known == kWanted;
  const bool wanted = matches(name);
  g_decisions[name_id].store(wanted ? kWanted : kUnwanted, std::memory_order_relaxed);
  return wanted;
}

void report_unmatched_patterns(const char* source) {
  const auto& patterns = settings().kernels;
  const uint64_t matched = g_matched.exchange(~0ull, std::memory_order_relaxed);  // each is reported once
  for (size_t i = 0; i < patterns.size() && i < kMostPatterns; ++i) {
    if ((matched >> i & 1) != 0) continue;
    report_loss(source, "kernel pattern '" + patterns[i] + "' matched no kernel", 1, Severity::note);
  }
}

}  // namespace warpsight
