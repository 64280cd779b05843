// Which process samples a GPU's program counters. One at a time can: in a second one CUPTI 13.0 lets sampling
// begin, then ends itself within cuptiPCSamplingGetData (it calls cuptiFinalize), and crashes if a thread
// launches meanwhile. Profilers of others are not known here.
#pragma once

#include <cstdint>
#include <string>

namespace warpsight {

// Takes a GPU for this process, which may already hold it; each call needs a release. Otherwise returns the
// holder.
bool take_gpu(uint32_t device, std::string* other);
void release_gpu(uint32_t device);

}  // namespace warpsight
