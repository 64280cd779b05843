#include "nvbit/operands.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nvbit/widths.h"

namespace warpsight {
namespace {

constexpr uint32_t kRead = 1, kWrite = 2;
constexpr int kZero = 255, kUniformZero = 63;  // RZ; URZ before sm_100

using Type = InstrType::OperandType;

void add(std::vector<int>* found, int number) {
  if (std::find(found->begin(), found->end(), number) == found->end()) found->push_back(number);
}

void add_registers(std::vector<int>* found, int first, int count) {
  if (first == kZero) return;
  for (int i = 0; i < std::max(count, 1) && first + i < kZero; ++i) add(found, first + i);
}

void add_uniform(std::vector<int>* found, int first, int count) {
  if (first == kUniformZero || first == kZero) return;
  for (int i = 0; i < std::max(count, 1) && first + i < kZero; ++i) add(found, kUniform + first + i);
}

// The registers in a text that NVBit does not decode: R and UR with a number, not as a part of a name. A
// descriptor of matrices (gdesc) is two pairs.
void add_named(std::vector<int>* found, const char* text) {
  const int width = strstr(text, "gdesc") != nullptr ? 4 : 1;
  for (const char* at = text; (at = strchr(at, 'R')) != nullptr; ++at) {
    const bool uniform = at > text && at[-1] == 'U';
    const char* const before = at - (uniform ? 2 : 1);
    const bool inside = before >= text && (isalnum(static_cast<unsigned char>(*before)) || *before == '_');
    if (inside || !isdigit(static_cast<unsigned char>(at[1]))) continue;
    if (uniform)
      add_uniform(found, atoi(at + 1), width);
    else
      add_registers(found, atoi(at + 1), 1);
  }
}

void add_memory(std::vector<int>* found, const InstrType::operand_t& operand) {
  const auto& at = operand.u.mref;
  if (at.has_ra) add_registers(found, at.ra_num, at.ra_mod == InstrType::RegModifierType::U64 ? 2 : 1);
  if (at.has_ur) add_uniform(found, at.ur_num, at.ur_mod == InstrType::RegModifierType::U64 ? 2 : 1);
  if (at.has_desc) add_uniform(found, at.desc_ureg_num, 2);
}

bool begins(const char* text, const char* with) { return strncmp(text, with, strlen(with)) == 0; }

std::vector<int> addresses_of(Instr* instruction) {
  std::vector<int> found;
  for (int i = 0; i < instruction->getNumOperands(); ++i)
    if (instruction->getOperand(i)->type == Type::MREF) found.push_back(i);
  return found;
}

}  // namespace

std::vector<int> registers_of(Instr* instruction, bool predicates) {
  std::vector<int> found;
  bool own = instruction->hasPred() && !instruction->isPredUniform(),
       uniform = instruction->hasPred() && !own;
  int place = -1;  // among operands that are no predicates
  for (int i = 0; i < instruction->getNumOperands(); ++i) {
    const InstrType::operand_t& operand = *instruction->getOperand(i);
    if (operand.type != Type::PRED && operand.type != Type::UPRED) ++place;
    const int width = std::max(operand.nbytes / 4, registers_of_operand(instruction->getOpcode(), place));
    switch (operand.type) {
      case Type::REG:
        add_registers(&found, operand.u.reg.num, width);
        break;
      case Type::UREG:
        add_uniform(&found, operand.u.reg.num, width);
        break;
      case Type::PRED:
        own = true;
        break;
      case Type::UPRED:
        uniform = true;
        break;
      case Type::CBANK:
        if (operand.u.cbank.has_reg_offset) add_named(&found, operand.str);
        break;
      case Type::MREF:
        add_memory(&found, operand);
        break;
      case Type::MEM_DESC:
        add_uniform(&found, operand.u.mem_desc.ureg_num, 2);
        break;
      case Type::IMM_UINT64:
      case Type::IMM_DOUBLE:
        break;
      default:  // later versions of NVBit have more
        add_named(&found, operand.str);
    }
  }
  if (predicates && own) found.push_back(kPredicates);
  if (predicates && uniform) found.push_back(kUniformPredicates);
  return found;
}

Access access_of(Instr* instruction) {
  using Space = InstrType::MemorySpace;
  Access made;
  const std::vector<int> addresses = addresses_of(instruction);
  const char* const opcode = instruction->getOpcodeShort();
  if (addresses.empty() || begins(opcode, "CCTL") || begins(opcode, "SYNCS")) return made;
  switch (instruction->getMemorySpace()) {
    case Space::LOCAL:
      made.kind = 5;
      break;
    case Space::GENERIC:
      made.kind = 0;
      break;
    case Space::GLOBAL:
      made.kind = 3;
      break;
    case Space::SHARED:
      made.kind = begins(opcode, "LDSM") || begins(opcode, "STSM") ? 19 : 4;
      break;
    case Space::GLOBAL_TO_SHARED:
      made.kind = 14;
      break;
    default:
      return made;
  }
  made.recorded = true;
  made.bytes = static_cast<uint32_t>(instruction->getSize());
  made.flags = (instruction->isLoad() ? kRead : 0) | (instruction->isStore() ? kWrite : 0);
  if (begins(opcode, "ATOM") || begins(opcode, "RED") || made.kind == 14) made.flags = kRead | kWrite;
  if (made.kind == 14 && addresses.size() > 1) {
    made.first = 1;
    made.second = 0;
  }
  if (made.kind == 19) {
    const char* const full = instruction->getOpcode();
    made.count = strstr(full, ".4") != nullptr ? 4 : strstr(full, ".2") != nullptr ? 2 : 1;
    made.bytes = 16;
  }
  return made;
}

bool ends_flow(Instr* instruction) {
  static const char* const kEnds[] = {"EXIT", "BRA",  "BRX",   "JMP", "JMX", "RET",
                                      "CALL", "KILL", "BREAK", "BPT", "RTT", "ACQBULK"};
  const char* const opcode = instruction->getOpcodeShort();
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](const char* end) { return begins(opcode, end); });
}

}  // namespace warpsight
