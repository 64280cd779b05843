// MACA's functions by name. MCPTI's callback ids differ from CUPTI's and are in no public header, so a
// function is identified by the library's name for it, and its number in our rows is our own.
#pragma once

#include <cstdint>
#include <vector>

namespace warpsight {

enum class MacaGroup : uint8_t {
  unknown,  // not met yet
  other,    // recorded only where `--api` asks for it
  launch,
  copy,
  set,
  memory,
  sync,
  event,
  stream,
  module,
  graph,
};

struct MacaFunction {
  uint16_t number;  // of the ApiFunction row that names it, from 1
  MacaGroup group;
  uint8_t wait;    // Sync.type of a wait, otherwise 0
  bool wanted;     // settings().api asks for it
  int8_t capture;  // +1 begins a stream capture, -1 ends one
};

constexpr uint32_t kMostMacaCallbacks = 4096;  // ids beyond it are left alone

// The meaning of a callback id; `name` is the functionName of the callback, read only the first time. Its
// ApiFunction row is written then.
MacaFunction maca_function(uint32_t domain, uint32_t cbid, const char* name);

// The function of a name, by rules of MACA's naming, which follows the CUDA runtime's.
MacaFunction classify(const char* name);

// The ids to enable, one by one, where the library names its functions; empty when it does not.
struct MacaCallback {
  uint32_t domain, cbid;
};
std::vector<MacaCallback> maca_callbacks(void* library);

}  // namespace warpsight
