#include "nvbit/widths.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace warpsight {
namespace {

using Words = std::vector<std::string>;

template <size_t count>
bool is_one_of(const std::string& word, const char* const (&words)[count]) {
  return std::any_of(std::begin(words), std::end(words), [&](const char* one) { return word == one; });
}

Words split(const std::string& opcode) {
  Words found;
  size_t begin = 0;
  for (size_t dot; (dot = opcode.find('.', begin)) != std::string::npos; begin = dot + 1)
    found.push_back(opcode.substr(begin, dot - begin));
  found.push_back(opcode.substr(begin));
  return found;
}

bool has(const Words& words, const char* modifier) {
  return std::find(words.begin() + 1, words.end(), modifier) != words.end();
}

// Of A, B and C for one warp.
struct Product {
  const char* name;
  const char* shape;
  int a, b, c;
};
constexpr Product kProducts[] = {
    {"HMMA", "16816", 4, 2, 4},  {"HMMA", "1688", 2, 1, 4},   {"HMMA", "1684", 2, 1, 4},
    {"HMMA", "884", 2, 2, 8},    {"HMMA", "168128", 4, 2, 4}, {"IMMA", "8816", 1, 1, 2},
    {"IMMA", "8832", 1, 1, 2},   {"IMMA", "16816", 2, 1, 4},  {"IMMA", "16832", 4, 2, 4},
    {"IMMA", "16864", 4, 2, 4},  {"BMMA", "88128", 1, 1, 2},  {"BMMA", "168128", 2, 1, 4},
    {"BMMA", "168256", 4, 2, 4}, {"DMMA", "884", 2, 2, 4},    {"DMMA", "8x8x4", 2, 2, 4},
    {"DMMA", "16x8x4", 4, 2, 8}, {"DMMA", "16x8x8", 8, 4, 8}, {"DMMA", "16x8x16", 16, 8, 8},
    {"QMMA", "16832", 4, 2, 4},  {"QMMA", "16816", 2, 1, 4},  {"OMMA", "16864", 4, 2, 4},
};

// 0 where the operation is no product of a warp.
int of_product(const Words& words, int place) {
  for (size_t i = 1; i < words.size(); ++i) {
    for (const Product& product : kProducts) {
      if (words[0] != product.name || words[i] != product.shape) continue;
      int a = product.a, b = product.b, c = product.c;
      if (words[0] == "HMMA" && has(words, "TF32")) {
        a = words[i] == "1688" ? 4 : 2;
        b = words[i] == "1688" ? 2 : 1;
      }
      const bool halves = i + 1 < words.size() && words[i + 1] == "F16";
      if ((words[0] == "HMMA" || words[0] == "QMMA") && halves) c /= 2;
      if (has(words, "SP")) b *= 2;
      return place == 0 || place == 3 ? c : place == 1 ? a : place == 2 ? b : 1;
    }
  }
  return 0;
}

// The accumulator of a warp group's product, which its first and its last register operand are; A has 4.
int of_warpgroup(const Words& words, int place) {
  for (size_t i = 1; i < words.size(); ++i) {
    int rows = 0, columns = 0, depth = 0;
    if (sscanf(words[i].c_str(), "%dx%dx%d", &rows, &columns, &depth) != 3) continue;
    const bool halves = words[0] == "HGMMA" && i + 1 < words.size() && words[i + 1] == "F16";
    return place == 1 ? 4 : rows * columns / 128 / (halves ? 2 : 1);
  }
  return 1;
}

bool is_type(const std::string& word) {
  const size_t letters = word.find_first_of("0123456789");
  static const char* const kTypes[] = {"F", "BF", "U", "S", "TF", "E"};
  return letters != std::string::npos && is_one_of(word.substr(0, letters), kTypes);
}

// F2F.F64.F32 R4, R2: the result's type stands first; where there is one, the other is 32 bits wide.
int of_conversion(const Words& words, int place) {
  Words types;
  std::copy_if(words.begin() + 1, words.end(), std::back_inserter(types), is_type);
  if (types.empty()) return 1;
  std::string result = types[0], source = types.size() > 1 ? types[1] : types[0];
  if (types.size() == 1 && words[0] == "I2F") (types[0][0] == 'F' ? source : result) = "32";
  if (types.size() == 1 && words[0] == "F2I")
    (types[0][0] == 'U' || types[0][0] == 'S' ? source : result) = "32";
  const std::string& chosen = place == 0 ? result : source;
  return chosen.size() > 2 && chosen.compare(chosen.size() - 2, 2, "64") == 0 ? 2 : 1;
}

}  // namespace

int registers_of_operand(const std::string& opcode, int place) {
  static const char* const kDouble[] = {"DADD", "DMUL", "DFMA", "DMNMX", "DSETP", "FFMA2", "FADD2", "FMUL2"};
  static const char* const kWarpgroup[] = {"HGMMA", "IGMMA", "QGMMA", "BGMMA"};
  static const char* const kTargets[] = {"RET", "CALL", "BRX", "JMX", "BRXU", "JMXU", "LEPC"};
  static const char* const kConversions[] = {"F2F", "F2I", "I2F", "FRND", "I2I"};
  static const char* const kOf64Bits[] = {"MOV",  "UMOV",  "IADD",   "UIADD3", "IADD3", "VIADD", "SEL",
                                          "USEL", "ISETP", "UISETP", "R2UR",   "UIADD", "LEA",   "CREDUX"};
  const Words words = split(opcode);
  const std::string& name = words[0];
  if (const int found = of_product(words, place)) return found;
  if (is_one_of(name, kWarpgroup)) return of_warpgroup(words, place);
  if (is_one_of(name, kDouble) || is_one_of(name, kTargets)) return 2;
  if ((name == "IMAD" || name == "UIMAD") && has(words, "WIDE")) return place == 0 || place == 3 ? 2 : 1;
  if (name == "CS2R" || name == "CS2UR") return has(words, "32") ? 1 : 2;
  if (is_one_of(name, kConversions)) return of_conversion(words, place);
  if (name == "LDSM" || name == "STSM") return words.back() == "4" ? 4 : words.back() == "2" ? 2 : 1;
  const bool wide = has(words, "64") || has(words, "U64") || has(words, "S64");
  return is_one_of(name, kOf64Bits) && wide ? 2 : 1;
}

}  // namespace warpsight
