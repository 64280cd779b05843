#include "nvtx/names.h"

#include <algorithm>

#include "ring/ring.h"

namespace warpsight::nvtx {
namespace {

std::atomic<uint32_t> g_domains{0};  // domains created besides the default one; relaxed: just a number

}  // namespace

Domain& default_domain() {
  static Domain* const domain = [] {  // never destroyed: events outlive static destructors
    auto* made = new Domain;
    made->use = use_of_domain("");
    return made;
  }();
  return *domain;
}

Domain* create_domain(const std::string& name) {
  const DomainUse use = use_of_domain(name);
  if (use == DomainUse::refused) return nullptr;
  auto* domain = new Domain;
  domain->name.text = name;
  domain->use = use;
  domain->number = std::min(g_domains.fetch_add(1, std::memory_order_relaxed) + 1, kDomains - 1);
  return domain;
}

RegisteredString* register_string(const std::string& text) {
  auto* string = new RegisteredString;
  string->text = text;
  return string;
}

void name_category(Domain& domain, uint32_t category, const std::string& name) {
  // The name before, if any, stays: other threads may be looking at it.
  if (category < kNamedCategories)
    domain.categories[category].store(register_string(name), std::memory_order_release);
}

uint32_t id_of(RegisteredString& string) {
  const uint64_t known = string.id.load(std::memory_order_acquire);
  const uint32_t generation = definitions_generation();
  if (known >> 32 == generation && static_cast<uint32_t>(known) != 0) return static_cast<uint32_t>(known);
  const uint32_t id = intern(string.text);
  string.id.store(static_cast<uint64_t>(generation) << 32 | id, std::memory_order_release);
  return id;
}

uint32_t category_id(Domain& domain, uint32_t category) {
  if (category == 0) return 0;
  if (category >= kNamedCategories) return intern(std::to_string(category));
  RegisteredString* name = domain.categories[category].load(std::memory_order_acquire);
  if (name == nullptr) {
    auto* number = register_string(std::to_string(category));
    // Not in place of a name that was given meanwhile.
    if (domain.categories[category].compare_exchange_strong(name, number, std::memory_order_acq_rel))
      name = number;
    else
      delete number;
  }
  return id_of(*name);
}

uint32_t message_id(int32_t type, const void* message) {
  if (message == nullptr) return 0;
  switch (type) {
    case kAscii:
      return intern_c_event(static_cast<const char*>(message));
    case kUnicode:
      return intern_event(utf8(static_cast<const wchar_t*>(message)));
    case kRegistered:
      return id_of(*static_cast<RegisteredString*>(const_cast<void*>(message)));
    default:
      return 0;
  }
}

}  // namespace warpsight::nvtx
