// Running the operations and timing them, together or one by one.
#pragma once
#include <vector>

#include "replay/program.h"

namespace warpsight::replay {

class Timing {
 public:
  Timing(const Driver& driver, const Script& script, Program* program, Report* report)
      : driver_(driver), script_(script), program_(*program), report_(report) {}

  bool prepare();
  // All operations once, from `first` on timed; writes one `total` line.
  bool run_whole(int run, unsigned variant);
  // With events around each operation; writes one `time` line each.
  bool run_timed(int run, unsigned variant);

 private:
  bool lead_in(unsigned variant);
  bool issue_all(unsigned variant, bool timed);
  bool end();
  bool begin_together();
  bool gated(bool timed) const;
  void open_gate();
  bool capture(unsigned variant);

  const Driver& driver_;
  const Script& script_;
  Program& program_;
  Report* const report_;
  CUevent begin_ = nullptr, end_ = nullptr;
  std::vector<CUevent> joins_;           // one a stream
  std::vector<CUevent> before_, after_;  // one an operation
  std::vector<uint64_t> issued_;         // ns at which the host issued each in the last run, and its end
  CUgraphExec graphs_[2] = {nullptr, nullptr};  // one a variant
  volatile unsigned* gate_ = nullptr;           // host memory that the streams wait for
  CUdeviceptr gate_address_ = 0;
};

}  // namespace warpsight::replay
