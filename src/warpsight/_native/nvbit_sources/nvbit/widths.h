// How many registers an operand spans, by the operation: NVBit says it of memory accesses alone.
#pragma once

#include <string>

namespace warpsight {

// `opcode`: with its modifiers, as IMAD.WIDE.U32. `place`: of the operand among those that are no predicates,
// 0 for the result. warpsight/device_code/widths.py has the same rules for whole instructions.
int registers_of_operand(const std::string& opcode, int place);

}  // namespace warpsight
