#include "nvtx/events.h"

#include <atomic>

#include "cuda/cuda.h"
#include "nvtx/payloads.h"
#include "runtime/runtime.h"

namespace warpsight::nvtx {
namespace {

constexpr uint8_t kPush = 1, kPop = 2, kStart = 3, kEnd = 4, kInstant = 5;
constexpr uint16_t kSourceNvtx = 1;
constexpr int kNoPush = -1;  // NVTX's answer to a pop without a push

std::atomic<uint64_t> g_ranges{0};        // last id given to a start/end range; relaxed: a number, no more
thread_local uint32_t t_depth[kDomains];  // open push/pop ranges, by domain

bool heard(const Domain& domain) { return recording() && domain.use == DomainUse::recorded; }

// No stack: an NVTX range names its place, and programs push millions of them.
void write_marker(uint8_t phase, Domain& domain, uint64_t id, const Event& event) {
  Marker row = {};
  row.time = now_ns();
  row.id = id;
  row.payload = event.payload;
  row.name = event.name;
  row.domain = id_of(domain.name);
  row.category = event.category;
  row.color = event.color;
  row.phase = phase;
  row.payload_type = event.payload_type;
  row.source = kSourceNvtx;
  row.attributes = event.attributes;
  write(row);
}

}  // namespace

Event event_of(Domain& domain, const EventAttributes* a) {
  Event event;
  if (a == nullptr || !heard(domain)) return event;
  event.name = message_id(a->message_type, a->message);
  event.category = category_id(domain, a->category);
  if (a->color_type == kArgb) event.color = a->color;
  if (a->payload_type == kExtendedPayload) {
    const auto* payloads = reinterpret_cast<const ExtendedPayload*>(a->payload);
    event.attributes = payload_attributes(payloads, static_cast<size_t>(a->reserved0));
  } else if (a->payload_type > 0 && a->payload_type <= 6) {
    event.payload_type = static_cast<uint8_t>(a->payload_type);
    event.payload = a->payload;
  }
  return event;
}

Event event_of(const char* message) {
  Event event;
  if (recording()) event.name = message_id(kAscii, message);
  return event;
}

Event event_of(const wchar_t* message) {
  Event event;
  if (recording()) event.name = message_id(kUnicode, message);
  return event;
}

void mark(Domain& domain, const Event& event) {
  if (heard(domain)) write_marker(kInstant, domain, 0, event);
}

uint64_t start(Domain& domain, const Event& event) {
  const uint64_t id = g_ranges.fetch_add(1, std::memory_order_relaxed) + 1;
  if (heard(domain)) write_marker(kStart, domain, id, event);
  return id;
}

void end(Domain& domain, uint64_t id, const Event& event) {
  if (heard(domain)) write_marker(kEnd, domain, id, event);
}

int push(Domain& domain, const Event& event) {
  const uint32_t depth = t_depth[domain.number]++;
  if (heard(domain)) write_marker(kPush, domain, depth, event);
  if (metric_range_begins != nullptr) metric_range_begins(event.name);
  return static_cast<int>(depth);
}

int pop(Domain& domain, const Event& event) {
  uint32_t& depth = t_depth[domain.number];
  if (depth == 0) return kNoPush;
  --depth;
  if (metric_range_ends != nullptr) metric_range_ends();
  if (heard(domain)) write_marker(kPop, domain, depth, event);
  return static_cast<int>(depth);
}

}  // namespace warpsight::nvtx
