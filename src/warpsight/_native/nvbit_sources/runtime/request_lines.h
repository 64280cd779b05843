// What injected libraries share: requests of the launcher, lines of `key=value` in a variable, and patterns
// of kernel names.
#pragma once

#include <cxxabi.h>
#include <fnmatch.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace warpsight {

// Calls `set(key, value)` for each line of a variable; false when it is not set.
template <class Set>
bool read_request_lines(const char* variable, Set set) {
  const char* text = getenv(variable);
  if (text == nullptr) return false;
  std::string_view rest(text);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) set(line.substr(0, equals), std::string(line.substr(equals + 1)));
  }
  return true;
}

// Whether one of the patterns (fnmatch) matches a kernel's mangled or demangled name; without patterns, each
// does.
inline bool name_matches(const std::vector<std::string>& patterns, const char* name) {
  if (patterns.empty()) return true;
  int status = 0;
  char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  bool wanted = false;
  for (const auto& pattern : patterns) {
    wanted |= fnmatch(pattern.c_str(), name, 0) == 0 ||
              (demangled != nullptr && fnmatch(pattern.c_str(), demangled, 0) == 0);
  }
  free(demangled);
  return wanted;
}

}  // namespace warpsight
