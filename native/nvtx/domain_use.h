// Which NVTX domains are recorded, according to `--ranges`.
#pragma once

#include <cstdint>
#include <string>

namespace warpsight::nvtx {

enum class DomainUse : uint8_t {
  recorded,
  left_out,  // its events are only counted, for the answers that NVTX promises
  refused,   // the library that creates it learns that nobody listens, and skips the work
};

// `name` is empty for the default domain. XLA, which announces every operation it runs in a domain of its
// own, asks once and does twice the work from then on if somebody listens: it is refused unless it is asked
// for.
DomainUse use_of_domain(const std::string& name);

}  // namespace warpsight::nvtx
