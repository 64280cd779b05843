#include "nvtx/payloads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "nvtx/known_payloads.h"
#include "nvtx/names.h"
#include "runtime/runtime.h"

namespace warpsight::nvtx {
namespace {

constexpr uint64_t kFirstDynamicId = 1ull << 32;
constexpr uint64_t kFixedArray = 1 << 4, kArrayMask = 7 << 4, kPointerFlag = 1 << 1, kMessageFlag = 1 << 10;
constexpr size_t kMostElements = 64, kDeepest = 4;
constexpr uint32_t kMostPayloads =
    200000;  // each becomes a string that is kept: a stream of them must end somewhere

enum class Kind : uint8_t { none, integer, natural, real, pointer, text, registered };
struct Type {
  Kind kind;
  uint8_t size;
};

// Sizes and readings of NVTX's predefined entry types on 64-bit Linux.
Type type_of(uint64_t type) {
  switch (type) {
    case 1:
    case 11:
      return {Kind::integer, 1};
    case 2:
    case 12:
    case 25:
    case 32:
      return {Kind::natural, 1};
    case 3:
    case 13:
      return {Kind::integer, 2};
    case 4:
    case 14:
    case 26:
      return {Kind::natural, 2};
    case 5:
    case 15:
      return {Kind::integer, 4};
    case 6:
    case 16:
    case 24:
    case 27:
    case 68:
    case 69:
    case 71:
    case 73:
      return {Kind::natural, 4};
    case 7:
    case 9:
    case 17:
      return {Kind::integer, 8};
    case 8:
    case 10:
    case 18:
    case 22:
    case 70:
    case 72:
    case 74:
      return {Kind::natural, 8};
    case 19:
    case 43:
      return {Kind::real, 4};
    case 20:
    case 44:
      return {Kind::real, 8};
    case 23:
      return {Kind::pointer, 8};
    case 75:
    case 76:
      return {Kind::text, 8};
    case 80:
      return {Kind::registered, 8};
    default:
      return {Kind::none, 0};
  }
}

struct Field {
  std::string name;
  uint64_t flags, type, detail, offset;
};
struct Schema {
  std::vector<Field> fields;
  size_t size = 0;
  bool plain = true;  // the bytes are complete: no field points to text, which the program might change
};

constexpr size_t kMostKnown = 4096;  // bytes of a payload that is remembered

using Schemas = std::map<uint64_t, const Schema*>;
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // one registration at a time
// Replaced as a whole by each registration, so that events need no lock; earlier versions stay, for threads
// that still read them: a program registers a few dozen. Release and acquire publish the contents.
std::atomic<const Schemas*> g_schemas{nullptr};
std::atomic<uint64_t> g_next_id{kFirstDynamicId};  // a number, no more
std::atomic<uint32_t> g_payloads{0};               // relaxed: a count; whoever reaches the limit reports it

const Schema* schema_of(uint64_t id) {
  const Schemas* schemas = g_schemas.load(std::memory_order_acquire);
  if (schemas == nullptr) return nullptr;
  const auto found = schemas->find(id);
  return found == schemas->end() ? nullptr : found->second;
}

void append_text(std::string* json, const char* text, size_t length) {
  *json += '"';
  for (size_t i = 0; i < length && text[i] != 0; ++i) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      *json += '\\';
      *json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", c);
      *json += escaped;
    } else {
      *json += c;
    }
  }
  *json += '"';
}

template <class T>
T read(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

int64_t integer(const uint8_t* at, size_t size) {
  switch (size) {
    case 1:
      return read<int8_t>(at);
    case 2:
      return read<int16_t>(at);
    case 4:
      return read<int32_t>(at);
    default:
      return read<int64_t>(at);
  }
}

uint64_t natural(const uint8_t* at, size_t size) {
  uint64_t value = 0;
  memcpy(&value, at, size);
  return value;
}

void append_scalar(std::string* json, Type type, const uint8_t* at) {
  char number[40] = "null";
  switch (type.kind) {
    case Kind::integer:
      snprintf(number, sizeof number, "%" PRId64, integer(at, type.size));
      break;
    case Kind::natural:
      snprintf(number, sizeof number, "%" PRIu64, natural(at, type.size));
      break;
    case Kind::real: {
      const double value = type.size == 4 ? read<float>(at) : read<double>(at);
      if (std::isfinite(value))
        snprintf(number, sizeof number, "%.17g", value);  // JSON has no infinity: null
      break;
    }
    case Kind::pointer:
      snprintf(number, sizeof number, "\"0x%" PRIx64 "\"", natural(at, 8));
      break;
    case Kind::text:
      if (const char* text = read<const char*>(at)) return append_text(json, text, strlen(text));
      break;
    case Kind::registered:
      if (const auto* string = read<const RegisteredString*>(at)) {
        return append_text(json, string->text.c_str(), string->text.size());
      }
      break;
    case Kind::none:
      break;
  }
  *json += number;
}

void append_object(std::string* json, const Schema& schema, const uint8_t* bytes, size_t size, size_t depth,
                   std::string* message);

void append_array(std::string* json, Type type, const uint8_t* at, size_t count) {
  *json += '[';
  for (size_t i = 0; i < std::min(count, kMostElements); ++i) {
    if (i != 0) *json += ',';
    append_scalar(json, type, at + i * type.size);
  }
  *json += ']';
}

// False when the field is of a sort that is left out, or is outside the payload.
bool append_field(std::string* json, const Field& field, const uint8_t* bytes, size_t size, size_t depth) {
  if ((field.flags & kPointerFlag) != 0 || field.offset >= size) return false;
  const uint8_t* at = bytes + field.offset;
  const size_t left = size - field.offset;
  const uint64_t array = field.flags & kArrayMask;
  if (const Schema* nested = schema_of(field.type)) {
    if (array != 0 || depth >= kDeepest || nested->size > left) return false;
    append_object(json, *nested, at, nested->size, depth + 1, nullptr);
    return true;
  }
  const Type type = type_of(field.type);
  if (type.kind == Kind::none) return false;
  if (array == 0) {
    if (type.size > left) return false;
    append_scalar(json, type, at);
    return true;
  }
  if (array != kFixedArray || field.detail > left / type.size) return false;
  const bool characters = field.type == 1 || field.type == 25;
  if (characters)
    append_text(json, reinterpret_cast<const char*>(at), field.detail);
  else
    append_array(json, type, at, field.detail);
  return true;
}

void append_object(std::string* json, const Schema& schema, const uint8_t* bytes, size_t size, size_t depth,
                   std::string* message) {
  *json += '{';
  const size_t begin = json->size();
  for (const Field& field : schema.fields) {
    std::string value;
    if (!append_field(&value, field, bytes, size, depth)) continue;
    if (json->size() != begin) *json += ',';
    append_text(json, field.name.c_str(), field.name.size());
    *json += ':';
    *json += value;
    if (message != nullptr && (field.flags & kMessageFlag) != 0 && value.size() > 2 && value[0] == '"') {
      *message = value.substr(1, value.size() - 2);
    }
  }
  *json += '}';
}

bool is_plain(const SchemaEntry& entry) {
  if (const Schema* nested = schema_of(entry.type)) return nested->plain;
  return (entry.flags & kPointerFlag) != 0 || type_of(entry.type).kind != Kind::text;
}

size_t size_of(uint64_t type) {
  if (const Schema* nested = schema_of(type)) return nested->size;
  return type_of(type).size;
}

}  // namespace

uint64_t new_schema_id() { return g_next_id.fetch_add(1); }

uint64_t register_schema(const SchemaAttributes* a) {
  if (a == nullptr || a->entries == nullptr) return 0;
  auto* schema = new Schema;
  size_t end = 0;
  for (size_t i = 0; i < a->entry_count; ++i) {
    const SchemaEntry& e = a->entries[i];
    const size_t size = std::max<size_t>(size_of(e.type), 1);
    const size_t aligned =
        (end + std::min<size_t>(size, 8) - 1) / std::min<size_t>(size, 8) * std::min<size_t>(size, 8);
    const uint64_t offset =
        e.offset != 0 || i == 0 ? e.offset : aligned;  // 0 behind the first: naturally aligned
    schema->fields.push_back({e.name != nullptr ? e.name : "", e.flags, e.type, e.detail, offset});
    schema->plain &= is_plain(e);
    end = offset + size * ((e.flags & kArrayMask) == kFixedArray ? e.detail : 1);
  }
  schema->size = a->static_size != 0 ? a->static_size : end;
  const uint64_t id = a->schema != 0 ? a->schema : new_schema_id();
  pthread_mutex_lock(&g_lock);
  const Schemas* before = g_schemas.load(std::memory_order_relaxed);
  auto* after = before != nullptr ? new Schemas(*before) : new Schemas;
  (*after)[id] = schema;
  g_schemas.store(after, std::memory_order_release);
  pthread_mutex_unlock(&g_lock);
  return id;
}

uint32_t payload_attributes(const ExtendedPayload* payloads, size_t count, uint32_t* message) {
  if (payloads == nullptr || !recording()) return 0;
  const Schema* schema = nullptr;
  const uint8_t* bytes = nullptr;
  size_t size = 0;
  for (size_t i = 0; i < count && schema == nullptr; ++i) {  // the first that can be read describes the event
    if (payloads[i].bytes == nullptr) continue;
    schema = schema_of(payloads[i].schema);
    bytes = static_cast<const uint8_t*>(payloads[i].bytes);
    size = payloads[i].size;
  }
  if (schema == nullptr) return 0;
  if (size == SIZE_MAX) size = schema->size;
  const bool keeps = schema->plain && size <= kMostKnown;
  PayloadKey key = {};
  if (keeps) {
    key = payload_key(schema, bytes, static_cast<uint32_t>(size));
    Said known;
    if (find_payload(key, &known)) {
      if (message != nullptr && known.message != 0) *message = known.message;
      return known.attributes;
    }
  }
  if (g_payloads.load(std::memory_order_relaxed) >= kMostPayloads) return 0;
  if (g_payloads.fetch_add(1, std::memory_order_relaxed) + 1 == kMostPayloads) {
    report_loss("nvtx", "extended payloads are left out from here on: there were 200,000 of them");
  }
  std::string json, text;
  append_object(&json, *schema, bytes, size, 0, &text);
  const uint32_t said = text.empty() ? 0 : intern_event(text);
  const uint32_t attributes = intern_event(json);
  if (message != nullptr && said != 0) *message = said;
  const bool lasting = attributes != 0 && attributes < kFirstOnceString && said < kFirstOnceString;
  if (keeps && lasting) keep_payload(key, {attributes, said});
  return attributes;
}

}  // namespace warpsight::nvtx
