// Extended payloads: structs that the program describes once by a schema and then attaches to events as raw
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvtx/abi.h"

namespace warpsight::nvtx {

uint64_t register_schema(const SchemaAttributes* attributes);  // its id
uint64_t new_schema_id();  // for enumerations, whose values are shown as numbers

// An event's payloads as the string id of a JSON object {"field": value, …}. Scalars, fixed-size arrays,
// strings and nested static schemas; other parts are left out. `message` receives the id of the field marked
// as the event's message, if there is one.
uint32_t payload_attributes(const ExtendedPayload* payloads, size_t count, uint32_t* message = nullptr);

}  // namespace warpsight::nvtx
