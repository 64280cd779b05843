// Which uniform registers of a TMA instruction are recorded.
#pragma once

#include <string>
#include <vector>

namespace warpsight {

struct TensorCopy {
  bool recorded = false;
  std::vector<int> registers;  // numbers; -1 for a zero
  int map = -1;                // the place among them of a tensor map's address, in two
};

// By its text, without knowing its layout: of `UTMALDG.2D [UR8], [UR4], UR6, desc[UR10]` the seven registers
// that the first operand begins with, which are enough for any rank, then the two of each further address and
// of a cache policy, and single ones. warpsight/formats/events/tensor_copies.py has the same rule.
TensorCopy tensor_copy_of(const std::string& text);

}  // namespace warpsight
