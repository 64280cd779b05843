#include "capsule/ranges.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "nvtx/tables.h"
#include "stacks/utf8.h"

namespace warpsight::nvtx {
namespace {

thread_local std::vector<std::string> t_pushed;
std::mutex g_mutex;  // protects `started`
std::atomic<uint64_t> g_next{1};

std::map<uint64_t, std::string>& started() {
  static auto* const value =
      new std::map<uint64_t, std::string>;  // never destroyed: programs call us at their end
  return *value;
}

std::string message(const EventAttributes* a) {
  if (a == nullptr || a->message == nullptr) return "";
  if (a->message_type == kAscii) return static_cast<const char*>(a->message);
  if (a->message_type == kUnicode) return utf8(static_cast<const wchar_t*>(a->message));
  return a->message_type == kRegistered ? *static_cast<const std::string*>(a->message) : "";
}

int push(const std::string& name) {
  t_pushed.push_back(name);
  named_range_begins(name.c_str());
  return static_cast<int>(t_pushed.size()) - 1;
}

int pop() {
  if (t_pushed.empty()) return -1;
  const std::string name = t_pushed.back();
  t_pushed.pop_back();
  named_range_ends(name.c_str());
  return static_cast<int>(t_pushed.size());
}

uint64_t start(const std::string& name) {
  const uint64_t id = g_next.fetch_add(1);
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    started()[id] = name;
  }
  named_range_begins(name.c_str());
  return id;
}

void end(uint64_t id) {
  std::string name;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    const auto found = started().find(id);
    if (found == started().end()) return;
    name = found->second;
    started().erase(found);
  }
  named_range_ends(name.c_str());
}

int push_ex(const EventAttributes* a) { return push(message(a)); }
int push_a(const char* text) { return push(text != nullptr ? text : ""); }
int push_w(const wchar_t* text) { return push(utf8(text)); }
uint64_t start_ex(const EventAttributes* a) { return start(message(a)); }
uint64_t start_a(const char* text) { return start(text != nullptr ? text : ""); }
uint64_t start_w(const wchar_t* text) { return start(utf8(text)); }
int domain_push(void*, const EventAttributes* a) { return push(message(a)); }
int domain_pop(void*) { return pop(); }
uint64_t domain_start(void*, const EventAttributes* a) { return start(message(a)); }
void domain_end(void*, uint64_t id) { end(id); }
void* register_a(void*, const char* text) { return new std::string(text != nullptr ? text : ""); }
void* register_w(void*, const wchar_t* text) { return new std::string(utf8(text)); }

}  // namespace
}  // namespace warpsight::nvtx

// Every library of a program that contains NVTX calls it once.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    warpsight::nvtx::GetExportTable get_export_table) {
  using namespace warpsight::nvtx;
  const Entry entries[] = {
      {kCore, kRangeStartEx, cast(start_ex)},
      {kCore, kRangeStartA, cast(start_a)},
      {kCore, kRangeStartW, cast(start_w)},
      {kCore, kRangeEnd, cast(end)},
      {kCore, kRangePushEx, cast(push_ex)},
      {kCore, kRangePushA, cast(push_a)},
      {kCore, kRangePushW, cast(push_w)},
      {kCore, kRangePop, cast(pop)},
      {kCore2, kDomainRangeStartEx, cast(domain_start)},
      {kCore2, kDomainRangeEnd, cast(domain_end)},
      {kCore2, kDomainRangePushEx, cast(domain_push)},
      {kCore2, kDomainRangePop, cast(domain_pop)},
      {kCore2, kDomainRegisterStringA, cast(register_a)},
      {kCore2, kDomainRegisterStringW, cast(register_w)},
  };
  return fill_tables(get_export_table, entries) ? 1 : 0;
}
