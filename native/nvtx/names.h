// Domains, categories and registered strings: made once by the program, looked up by every event.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "nvtx/abi.h"
#include "nvtx/domain_use.h"
#include "stacks/utf8.h"

namespace warpsight::nvtx {

// A string the program registered; its handle is the address. Never freed: a program may use it for ever.
struct RegisteredString {
  std::string text;
  // generation << 32 | id, since its first use in a recording. Release and acquire: a thread that takes the
  // id from here writes rows with it, and a drainer that sees such a row must see the id's definition too.
  std::atomic<uint64_t> id{0};
};

constexpr uint32_t kNamedCategories =
    256;                           // category numbers that are remembered; larger ones are interned each time
constexpr uint32_t kDomains = 64;  // domains with a depth of their own per thread

struct Domain {
  RegisteredString name;
  uint32_t number = 0;  // 0 the default domain; index of per-thread depths
  DomainUse use = DomainUse::recorded;
  // Names, otherwise numbers as strings; null before the first use. Release and acquire publish the string.
  std::atomic<RegisteredString*> categories[kNamedCategories] = {};
};

Domain& default_domain();
inline Domain& domain_of(void* handle) {
  return handle != nullptr ? *static_cast<Domain*>(handle) : default_domain();
}

Domain* create_domain(const std::string& name);  // null if nobody listens to it
RegisteredString* register_string(const std::string& text);
void name_category(Domain& domain, uint32_t category, const std::string& name);

uint32_t id_of(RegisteredString& string);
uint32_t category_id(Domain& domain,
                     uint32_t category);  // its name, otherwise its number as a string; 0 for category 0
uint32_t message_id(int32_t type, const void* message);

}  // namespace warpsight::nvtx
