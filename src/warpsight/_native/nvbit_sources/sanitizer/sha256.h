// SHA-256 (FIPS 180-4).
#pragma once

#include <string>
#include <string_view>

namespace warpsight {

// In 64 hexadecimal digits.
std::string sha256(std::string_view data);

}  // namespace warpsight
