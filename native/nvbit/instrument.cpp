#include "nvbit/instrument.h"

#include <algorithm>

#include "nvbit/operands.h"
#include "nvbit/tensor_copies.h"
#include "nvbit/tool_format.h"
#include "sanitizer/event_file.h"

namespace warpsight {

Instrumenter::Instrumenter(const EventRequest& request) : request_(request) {
  for (const std::string& pattern : request.sass) {
    regex_t compiled;
    if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) == 0)
      patterns_.push_back(compiled);
    else
      bad_ = pattern;
  }
}

Instrumenter::~Instrumenter() {
  for (regex_t& pattern : patterns_) regfree(&pattern);
}

bool Instrumenter::wanted(Instr* instruction) const {
  const uint64_t offset = instruction->getOffset();
  const auto inside = [&](const Range& range) { return offset >= range.low && offset < range.high; };
  if (!request_.offsets.empty() && std::none_of(request_.offsets.begin(), request_.offsets.end(), inside))
    return false;
  const auto matches = [&](const regex_t& pattern) {
    return regexec(&pattern, instruction->getSass(), 0, nullptr, 0) == 0;
  };
  return request_.sass.empty() || std::any_of(patterns_.begin(), patterns_.end(), matches);
}

// The arguments that all injected functions begin with.
static void begin_call(Instr* instruction, const char* function, ipoint_t point, uint64_t tool) {
  nvbit_insert_call(instruction, function, point);
  nvbit_add_call_arg_guard_pred_val(instruction);
  nvbit_add_call_arg_launch_val64(instruction, 0);
  nvbit_add_call_arg_const_val64(instruction, tool);
}

// Those of a call that records.
static void begin_record(Instr* instruction, const char* function, ipoint_t point, uint32_t pc, uint64_t tool,
                         uint32_t what) {
  begin_call(instruction, function, point, tool);
  nvbit_add_call_arg_const_val32(instruction, pc);
  nvbit_add_call_arg_const_val32(instruction, what);
}

void Instrumenter::inject_registers(Instr* instruction, const std::vector<int>& registers, uint32_t pc,
                                    uint64_t tool, ipoint_t point) const {
  constexpr size_t kMost = WS_REGISTERS_AT_ONCE;
  size_t begin = 0;
  for (uint32_t part = 0; part == 0 || begin < registers.size(); ++part) {
    const size_t end = std::min(registers.size(), begin + kMost);
    const uint32_t flags = (point == IPOINT_AFTER ? 1 : 0) | part << 1;
    begin_record(instruction, "ws_nvbit_registers", point, pc, tool,
                 flags | static_cast<uint32_t>(end - begin) << 8);
    for (; begin < end; ++begin) {
      const int number = registers[begin];
      if (number == kPredicates)
        nvbit_add_call_arg_pred_reg(instruction, true);
      else if (number == kUniformPredicates)
        nvbit_add_call_arg_upred_reg(instruction, true);
      else if (number >= kUniform)
        nvbit_add_call_arg_ureg_val(instruction, number - kUniform, true);
      else
        nvbit_add_call_arg_reg_val(instruction, number, true);
    }
  }
}

void Instrumenter::inject_access(Instr* instruction, uint32_t pc, uint64_t tool) const {
  const Access access = access_of(instruction);
  if (!access.recorded) return;
  const bool both = access.second >= 0 || access.count != 0;
  begin_record(instruction, "ws_nvbit_access", IPOINT_BEFORE, pc, tool,
               access.kind | access.flags << 8 | (access.bytes & 255) << 16 | (both ? 1u << 24 : 0));
  nvbit_add_call_arg_mref_addr64(instruction, access.first);
  if (access.second >= 0)
    nvbit_add_call_arg_mref_addr64(instruction, access.second);
  else
    nvbit_add_call_arg_const_val64(instruction, access.count);
}

void Instrumenter::inject_tensor_copy(Instr* instruction, uint32_t pc, uint64_t tool) const {
  const TensorCopy copy = tensor_copy_of(instruction->getSass());
  if (!copy.recorded) return;
  const uint32_t flags = copy.map >= 0 ? WS_TENSOR_MAP : 0;
  begin_record(instruction, "ws_nvbit_tensor_copy", IPOINT_BEFORE, pc, tool,
               static_cast<uint32_t>(copy.registers.size()) | flags << 8 |
                   static_cast<uint32_t>(std::max(copy.map, 0)) << 16);
  for (const int number : copy.registers) {
    if (number < 0)
      nvbit_add_call_arg_const_val32(instruction, 0, true);
    else
      nvbit_add_call_arg_ureg_val(instruction, number, true);
  }
}

void Instrumenter::inject(Instr* instruction, uint32_t pc, uint64_t tool) const {
  const uint32_t collect = request_.collect;
  std::vector<int> registers;
  if ((collect & kRegisters) != 0)
    registers = registers_of(instruction, (collect & kPredicateRegisters) != 0);
  // An instruction is recorded at its place, even if its registers are only read after it.
  if ((collect & kInstructions) != 0 || ((collect & kBefore) != 0 && !registers.empty()))
    inject_registers(instruction, (collect & kBefore) != 0 ? registers : std::vector<int>(), pc, tool,
                     IPOINT_BEFORE);
  if ((collect & kMemory) != 0) inject_access(instruction, pc, tool);
  if ((collect & kTensorCopies) != 0) inject_tensor_copy(instruction, pc, tool);
  if ((collect & kAfter) != 0 && !registers.empty() && !ends_flow(instruction))
    inject_registers(instruction, registers, pc, tool, IPOINT_AFTER);
}

size_t Instrumenter::instrument(const std::vector<Instr*>& instructions, uint64_t pc, uint64_t tool) const {
  size_t count = 0;
  for (Instr* const instruction : instructions) {
    if (!wanted(instruction)) continue;
    inject(instruction, static_cast<uint32_t>(pc + instruction->getOffset()), tool);
    ++count;
  }
  return count;
}

void Instrumenter::begin(const std::vector<Instr*>& instructions, uint64_t tool) {
  begin_call(instructions.front(), "ws_nvbit_begin", IPOINT_BEFORE, tool);
}

void Instrumenter::delay(const std::vector<Instr*>& instructions, uint64_t pc, uint64_t tool,
                         const std::vector<DelayPoint>& points) {
  for (Instr* const instruction : instructions) {
    const uint32_t offset = instruction->getOffset();
    const auto here = [offset](const DelayPoint& point) {
      return point.pc == offset && point.kind == WS_INSTRUCTION_KIND;
    };
    if (std::none_of(points.begin(), points.end(), here)) continue;
    begin_call(instruction, "ws_nvbit_visit", IPOINT_BEFORE, tool);
    nvbit_add_call_arg_const_val32(instruction, static_cast<uint32_t>(pc + offset));
  }
}

std::string Instrumenter::describe(const std::vector<Instr*>& instructions) const {
  std::string text = "[";
  for (Instr* const instruction : instructions) {
    if (text.size() > 1) text += ',';
    text += "[" + std::to_string(instruction->getOffset()) + "," + quoted(instruction->getSass()) + ",[";
    bool first = true;
    for (const int number : registers_of(instruction, (request_.collect & kPredicateRegisters) != 0)) {
      text += (first ? "" : ",") + std::to_string(number);
      first = false;
    }
    text += "]]";
  }
  return text + "]";
}

}  // namespace warpsight
