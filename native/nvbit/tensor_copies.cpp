#include "nvbit/tensor_copies.h"

#include <stdlib.h>

#include <algorithm>
#include <iterator>

#include "nvbit/tool_format.h"

namespace warpsight {
namespace {

constexpr int kUniformRegisters = 63;  // UR63 is zero
constexpr size_t kBlock = 7, kPair = 2;

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

// Other instructions of the unit copy nothing: they flush, fence, or fetch a tensor map.
bool is_copy(const std::string& name) {
  static const char* const kOthers[] = {"UTMACCTL", "UTMACMDFLUSH", "UTMAFENCE"};
  const bool other =
      std::any_of(std::begin(kOthers), std::end(kOthers), [&](const char* one) { return name == one; });
  return (begins(name, "UTMA") || begins(name, "UBLK")) && !other;
}

bool names_map(const std::string& name) {
  return name == "UTMALDG" || name == "UTMASTG" || name == "UTMAREDG" || name == "UTMAPF";
}

// Adds the registers from the one that an operand names.
void add(std::vector<int>* found, const std::string& operand, size_t count) {
  const size_t at = operand.find("UR");
  if (at == std::string::npos) return;
  const bool zero = operand.compare(at, 3, "URZ") == 0;
  const int first = atoi(operand.c_str() + at + 2);
  for (size_t i = 0; i < count && found->size() < WS_REGISTERS_AT_ONCE; ++i) {
    const int number = first + static_cast<int>(i);
    found->push_back(zero || number >= kUniformRegisters ? -1 : number);
  }
}

}  // namespace

TensorCopy tensor_copy_of(const std::string& text) {
  TensorCopy copy;
  size_t begin = text.find_first_not_of(' ');
  if (begin != std::string::npos && text[begin] == '@')
    begin = text.find_first_not_of(' ', text.find(' ', begin));
  if (begin == std::string::npos) return copy;
  const std::string name = text.substr(begin, text.find_first_of(". ;", begin) - begin);
  copy.recorded = is_copy(name);
  size_t addresses = 0;
  for (size_t at = text.find(' ', begin); copy.recorded && at != std::string::npos;) {
    const size_t next = text.find(',', at + 1);
    const std::string operand = text.substr(at, next == std::string::npos ? next : next - at);
    const size_t first = operand.find_first_not_of(" ,");
    const bool address = first != std::string::npos && operand[first] == '[';
    if (address && ++addresses == 2 && names_map(name)) copy.map = static_cast<int>(copy.registers.size());
    const bool block = address && addresses == 1 && begins(name, "UTMA");
    const bool pair = address || operand.find("desc") != std::string::npos;
    add(&copy.registers, operand, block ? kBlock : pair ? kPair : 1);
    at = next;
  }
  if (copy.map >= 0 && copy.map + kPair > copy.registers.size()) copy.map = -1;
  return copy;
}

}  // namespace warpsight
