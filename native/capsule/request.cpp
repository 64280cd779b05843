#include "capsule/request.h"

#include "runtime/request_lines.h"

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
  if (key == "hangs") request->hangs = value == "1";
  if (key == "limit") request->limit = strtoull(value.c_str(), nullptr, 10);
  if (key == "signal") request->signal = atoi(value.c_str());
  if (key == "trigger") request->trigger = value == "1";
  if (key == "keep")
    request->keep = value == "slowest"   ? Keep::slowest
                    : value == "hung"    ? Keep::hung
                    : value == "faulted" ? Keep::faulted
                                         : Keep::all;
  if (key == "patience") request->patience_ns = strtoull(value.c_str(), nullptr, 10);
}

}  // namespace

bool read_capsule_request(CapsuleRequest* request) {
  const auto take = [request](std::string_view key, const std::string& value) { set(request, key, value); };
  return read_request_lines("WARPSIGHT_CAPSULE", take) && !request->folder.empty();
}

}  // namespace warpsight
