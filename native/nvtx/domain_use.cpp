#include "nvtx/domain_use.h"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "runtime/runtime.h"

namespace warpsight::nvtx {
namespace {

constexpr const char* kXlaDomain = "TSL";

bool any_of(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

DomainUse use_of_xla(bool chosen) {
  if (!chosen) {
    report_loss(
        "nvtx",
        "XLA's ranges are left out, because announcing each operation can make a JAX program twice as "
        "slow; kernels have the names of their HLO operations all the same (--ranges auto,xla records "
        "the ranges too)",
        1, Severity::note);
  }
  return DomainUse::refused;
}

}  // namespace

DomainUse use_of_domain(const std::string& name) {
  const std::vector<std::string>& words = settings().ranges;
  const bool xla = name == kXlaDomain;
  if (any_of(words, xla ? "xla" : "nvtx")) return DomainUse::recorded;
  const bool chosen = std::any_of(words.begin(), words.end(),
                                  [](const auto& word) { return word != "torch" && word != "auto"; });
  for (const std::string& word : words) {
    if (!name.empty() && fnmatch(word.c_str(), name.c_str(), 0) == 0) return DomainUse::recorded;
  }
  if (xla) return use_of_xla(chosen);
  if (!chosen || any_of(words, "auto")) return DomainUse::recorded;
  if (name.empty() && any_of(words, "torch")) return DomainUse::recorded;  // where PyTorch announces them
  return DomainUse::left_out;
}

}  // namespace warpsight::nvtx
