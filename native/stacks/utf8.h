// Text as UTF-8.
#pragma once

#include <cstdint>
#include <string>

namespace warpsight {

// Appends one code point; lone surrogates and invalid code points become U+FFFD.
void append_utf8(std::string* out, uint32_t point);
std::string utf8(const wchar_t* text);

}  // namespace warpsight
