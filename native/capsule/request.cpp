#include "capsule/request.h"

#include <cxxabi.h>
#include <fnmatch.h>

#include <cstdlib>
#include <string_view>

namespace warpsight {
namespace {

void set(CapsuleRequest* request, std::string_view key, const std::string& value) {
  if (key == "folder") request->folder = value;
  if (key == "kernel") request->kernels.push_back(value);
  if (key == "first") request->first = strtoull(value.c_str(), nullptr, 10);
  if (key == "end") request->end = strtoull(value.c_str(), nullptr, 10);
  if (key == "range") request->range = value;
  if (key == "everything") request->everything = value == "1";
  if (key == "contents") request->contents = value == "1";
  if (key == "shadow") request->shadow = value == "1";
  if (key == "limit") request->limit = strtoull(value.c_str(), nullptr, 10);
  if (key == "signal") request->signal = atoi(value.c_str());
  if (key == "keep")
    request->keep = value == "slowest"   ? Keep::slowest
                    : value == "hung"    ? Keep::hung
                    : value == "faulted" ? Keep::faulted
                                         : Keep::all;
  if (key == "patience") request->patience_ns = strtoull(value.c_str(), nullptr, 10);
}

}  // namespace

bool read_capsule_request(CapsuleRequest* request) {
  const char* text = getenv("WARPSIGHT_CAPSULE");
  if (text == nullptr) return false;
  std::string_view rest(text);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      set(request, line.substr(0, equals), std::string(line.substr(equals + 1)));
  }
  return !request->folder.empty();
}

bool kernel_requested(const CapsuleRequest& request, const char* name) {
  if (request.kernels.empty()) return true;
  int status = 0;
  char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  bool wanted = false;
  for (const auto& pattern : request.kernels) {
    wanted |= fnmatch(pattern.c_str(), name, 0) == 0 ||
              (demangled != nullptr && fnmatch(pattern.c_str(), demangled, 0) == 0);
  }
  free(demangled);
  return wanted;
}

}  // namespace warpsight
