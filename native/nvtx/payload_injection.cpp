// The entry of NVTX's extensions: we serve the payload extension.
#include "nvtx/abi.h"
#include "nvtx/events.h"
#include "nvtx/payloads.h"
#include "runtime/runtime.h"

namespace warpsight::nvtx {
namespace {

Event event_of(const Domain& domain, const ExtendedPayload* payloads, size_t count) {
  Event event;
  if (domain.use == DomainUse::left_out) return event;
  event.attributes = payload_attributes(payloads, count, &event.name);
  return event;
}

uint64_t schema_register(void*, const SchemaAttributes* attributes) { return register_schema(attributes); }
uint64_t enum_register(void*, const void*) { return new_schema_id(); }
void mark_payload(void* d, const ExtendedPayload* p, size_t count) {
  mark(domain_of(d), event_of(domain_of(d), p, count));
}
int push_payload(void* d, const ExtendedPayload* p, size_t count) {
  return push(domain_of(d), event_of(domain_of(d), p, count));
}
int pop_payload(void* d, const ExtendedPayload* p, size_t count) {
  return pop(domain_of(d), event_of(domain_of(d), p, count));
}
uint64_t start_payload(void* d, const ExtendedPayload* p, size_t count) {
  return start(domain_of(d), event_of(domain_of(d), p, count));
}
void end_payload(void* d, uint64_t id, const ExtendedPayload* p, size_t count) {
  end(domain_of(d), id, event_of(domain_of(d), p, count));
}
uint8_t is_enabled(void* d) { return recording() && domain_of(d).use != DomainUse::left_out ? 1 : 0; }

template <class F>
void fill(const ExtensionSegment& segment, PayloadFunction number, F* function) {
  if (static_cast<size_t>(number) < segment.slots)
    segment.functions[number] = reinterpret_cast<intptr_t>(function);
}

}  // namespace
}  // namespace warpsight::nvtx

// 1 when we serve the extension; another answer disables it in the library that asked.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    warpsight::nvtx::ExtensionModule* module) {
  using namespace warpsight::nvtx;
  if (module == nullptr || module->module != kPayloadModule || module->segment_count == 0) return 0;
  if (!warpsight::ensure_runtime()) return 0;
  const ExtensionSegment& segment = module->segments[0];
  fill(segment, kSchemaRegister, schema_register);
  fill(segment, kEnumRegister, enum_register);
  fill(segment, kMarkPayload, mark_payload);
  fill(segment, kRangePushPayload, push_payload);
  fill(segment, kRangePopPayload, pop_payload);
  fill(segment, kRangeStartPayload, start_payload);
  fill(segment, kRangeEndPayload, end_payload);
  fill(segment, kDomainIsEnabled, is_enabled);
  return 1;
}
