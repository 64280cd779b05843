#include "stacks/utf8.h"

namespace warpsight {

void append_utf8(std::string* out, uint32_t point) {
  if ((point >= 0xd800 && point < 0xe000) || point > 0x10ffff) point = 0xfffd;
  if (point < 0x80) {
    *out += static_cast<char>(point);
  } else if (point < 0x800) {
    *out += static_cast<char>(0xc0 | point >> 6);
    *out += static_cast<char>(0x80 | (point & 63));
  } else if (point < 0x10000) {
    *out += static_cast<char>(0xe0 | point >> 12);
    *out += static_cast<char>(0x80 | (point >> 6 & 63));
    *out += static_cast<char>(0x80 | (point & 63));
  } else {
    *out += static_cast<char>(0xf0 | point >> 18);
    *out += static_cast<char>(0x80 | (point >> 12 & 63));
    *out += static_cast<char>(0x80 | (point >> 6 & 63));
    *out += static_cast<char>(0x80 | (point & 63));
  }
}

std::string utf8(const wchar_t* text) {
  std::string result;
  for (; text != nullptr && *text != 0; ++text) append_utf8(&result, static_cast<uint32_t>(*text));
  return result;
}

}  // namespace warpsight
