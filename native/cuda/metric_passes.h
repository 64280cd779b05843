// WARPSIGHT_METRICS_PASSES=FOLDER: metrics that need several passes, one in each run of the program. The
// folder has the measurements of earlier runs, one file for each session of a context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace warpsight {

struct PassState {
  uint64_t pass, level;  // counters that CUPTI should measure next
  uint64_t pattern;      // of the session's measurement: runs that differ cannot be combined
};

// The intermediate results of earlier runs for a session; false if there are none, or they have a different
// size. `data` has the image's size.
bool load_passes(uint32_t context, uint64_t session, PassState* state, std::vector<uint8_t>* data);

// Keeps it for the next run; the reason why not, or "".
std::string save_passes(uint32_t context, uint64_t session, const PassState& state,
                        const std::vector<uint8_t>& data);

// After the last pass.
void forget_passes(uint32_t context, uint64_t session);

}  // namespace warpsight
