// Marker rows: what every NVTX event becomes.
#pragma once

#include <cstdint>

#include "nvtx/names.h"

namespace warpsight::nvtx {

// The parts of an event that its row takes over; the message is already an id.
struct Event {
  uint32_t name = 0;
  uint32_t category = 0;
  uint32_t color = 0;
  uint64_t payload = 0;
  uint8_t payload_type = 0;
  uint32_t attributes = 0;
};

Event event_of(Domain& domain, const EventAttributes* attributes);
Event event_of(const char* message);
Event event_of(const wchar_t* message);

void mark(Domain& domain, const Event& event);
uint64_t start(Domain& domain, const Event& event);  // the range's id
void end(Domain& domain, uint64_t id, const Event& event = {});
int push(Domain& domain, const Event& event);  // the depth of the range, from 0
int pop(Domain& domain, const Event& event = {});

}  // namespace warpsight::nvtx
