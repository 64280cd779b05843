#include "cuda/versions.h"

namespace warpsight {
namespace {

// From NVIDIA's release notes and our own runs; `doctor` and `info` quote the same sentences.
struct KnownProblem {
  uint32_t first, last;  // cuptiGetVersion, inclusive
  const char* text;
};

constexpr KnownProblem kProblems[] = {
    {0, 23,
     "detaching is unsafe once CUDA graphs were used, so a stopped recorder stays attached (fixed in 12.6)"},
    {22, 22, "CUDA 12.4 update 1 may deliver no kernel records at all (fixed in 12.5)"},
    {130000, 130100, "graph ids of kernels can be wrong (fixed in 13.1 update 1)"},
    {130000, 130400,
     "kernel names can be stale after modules were unloaded, and CPU use can grow over hours "
     "(fixed in 13.4 update 1)"},
};

}  // namespace

std::string known_problems(uint32_t version) {
  std::string text;
  for (const auto& problem : kProblems) {
    if (version < problem.first || version > problem.last) continue;
    text += text.empty() ? "CUPTI API version " + std::to_string(version) + ": " : "; ";
    text += problem.text;
  }
  return text;
}

RecordSizes record_sizes(uint32_t version) {
  RecordSizes sizes = {sizeof(CUpti_ActivityKernel10),         sizeof(CUpti_ActivityMemcpy6),
                       sizeof(CUpti_ActivityMemcpyPtoP4),      sizeof(CUpti_ActivityMemset4),
                       sizeof(CUpti_ActivitySynchronization2), sizeof(CUpti_ActivityCudaEvent2),
                       sizeof(CUpti_ActivityMemory4),          sizeof(CUpti_ActivityMemoryPool3),
                       sizeof(CUpti_ActivityOverhead3)};
  if (version < kCupti128) {
    sizes.memcpy = sizeof(CUpti_ActivityMemcpy5);
    sizes.synchronization = sizeof(CUpti_ActivitySynchronization);
    sizes.event = sizeof(CUpti_ActivityCudaEvent);
    sizes.kernel = sizeof(CUpti_ActivityKernel9);
    sizes.memory = sizeof(CUpti_ActivityMemory3);
    sizes.pool = sizeof(CUpti_ActivityMemoryPool2);
  }
  if (version < kCupti122) {
    sizes.overhead = sizeof(CUpti_ActivityOverhead);
    sizes.kernel = sizeof(CUpti_ActivityKernel8);
  }
  return sizes;
}

}  // namespace warpsight
