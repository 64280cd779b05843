// Which NVTX domains are recorded: what `--ranges` says, and XLA's only as long as they are cheap.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/own_time.h"

namespace warpsight::nvtx {

// XLA's domain, in which it announces every operation it runs.
constexpr const char* kXlaDomain = "TSL";

enum class DomainUse : uint8_t {
  recorded,
  while_cheap,  // until its ranges take too much of a thread's time
  left_out,     // its events are only counted, for the answers that NVTX promises
  refused,      // the library that makes it is told that nobody listens
};
// `name` is empty for the default domain.
DomainUse use_of_domain(const std::string& name);

// What a thread knows of ranges that are recorded while they are cheap.
struct RangeCost {
  uint32_t generation;  // of definitions: a new one begins a new judgement
  uint32_t counted;     // ranges since `since`
  uint32_t costly;      // windows in a row that were
  bool muted;
  uint64_t since;
};

// Counts a range that begins outside of all others of its domain; true when ranges are muted from it on.
bool too_costly(RangeCost* cost);

}  // namespace warpsight::nvtx
