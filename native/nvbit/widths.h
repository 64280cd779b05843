// How many registers an operand spans, by operation: NVBit only reports it for memory accesses.
#pragma once

#include <string>

namespace warpsight {

// `opcode`: with its modifiers, such as IMAD.WIDE.U32. `place`: of the operand among those other than
// predicates, 0 for the result. warpsight/device_code/widths.py has the same rules for whole instructions.
int registers_of_operand(const std::string& opcode, int place);

}  // namespace warpsight
