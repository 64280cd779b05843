#include "sanitizer/request.h"

#include "runtime/request_lines.h"
#include "sanitizer/event_format.h"
#include "sanitizer/probe_format.h"

namespace warpsight {
namespace {

uint64_t number(const std::string& text) { return strtoull(text.c_str(), nullptr, 0); }

// LOW..HIGH, as the launcher writes it.
Range range(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {};
  return {number(text.substr(0, dots)), number(text.substr(dots + 2))};
}

void set(EventRequest* request, std::string_view key, const std::string& value) {
  if (key == "file") request->file = value;
  if (key == "library") request->library = value;
  if (key == "patches") request->patches.push_back(value);
  if (key == "kernel") request->kernels.push_back(value);
  if (key == "mode") request->mode = static_cast<uint32_t>(number(value));
  if (key == "shadow") request->shadow_bytes = number(value);
  if (key == "compiler") request->compiler = value;
  if (key == "architecture") request->architecture = static_cast<uint32_t>(number(value));
  if (key == "plan") request->plan = value;
  if (key == "limit") request->limit = number(value);
  if (key == "description") request->description = value;
  if (key == "launches") request->launches = range(value);
  if (key == "blocks") request->blocks = range(value);
  if (key == "addresses") request->addresses = range(value);
  if (key == "offsets") request->offsets.push_back(range(value));
  if (key == "warps") request->warps = static_cast<uint32_t>(number(value));
  if (key == "every") request->every = static_cast<uint32_t>(number(value));
  if (key == "first") request->first = number(value);
  if (key == "ring") request->ring_bytes = number(value);
  if (key == "values") request->values = number(value) != 0;
  if (key == "probe") request->probes.push_back(value);
  if (key == "map_bytes") request->map_bytes = number(value);
  if (key == "map") {
    const size_t colon = value.find(':');
    if (colon != std::string::npos)
      request->maps.push_back({static_cast<uint32_t>(number(value)), number(value.substr(colon + 1)),
                               value.find(":hidden") == std::string::npos});
  }
  if (key == "collect") request->collect = static_cast<uint32_t>(number(value));
  if (key == "sass") request->sass.push_back(value);
  if (key == "nvdisasm") request->nvdisasm = value;
  if (key == "instruction") {
    const size_t colon = value.find(':');
    if (colon != std::string::npos)
      request->instructions.emplace_back(static_cast<int>(number(value)), value.substr(colon + 1));
  }
}

}  // namespace

bool read_request(EventRequest* request) {
  const auto take = [request](std::string_view key, const std::string& value) { set(request, key, value); };
  if (!read_request_lines("WARPSIGHT_EVENTS", take)) return false;
  if (request->mode == WS_STRESS) return true;
  return (!request->file.empty() || request->mode == WS_DELAY) && !request->library.empty();
}

bool kernel_requested(const EventRequest& request, const std::string& name) {
  if (!request.probes.empty() && probes_of(request, name) == 0) return false;
  return name_matches(request.kernels, name.c_str());
}

uint32_t probes_of(const EventRequest& request, const std::string& name) {
  uint32_t found = 0;
  for (size_t i = 0; i < request.probes.size() && i < WS_PROBES; ++i)
    if (name_matches({request.probes[i]}, name.c_str())) found |= 1u << i;
  return found;
}

}  // namespace warpsight
