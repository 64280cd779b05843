#include "stacks/code_table.h"

namespace warpsight {

void CodeTable::clear() {
  index_.clear();
  delete codes_;
  codes_ = nullptr;
}

void CodeTable::abandon() {
  index_.abandon();
  codes_ = nullptr;
}

}  // namespace warpsight
