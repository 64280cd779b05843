// NVTX's entry: every library of a program that contains NVTX calls it once and gets our functions.
#include "cuda/cuda.h"
#include "nvtx/abi.h"
#include "nvtx/events.h"
#include "nvtx/names.h"
#include "nvtx/tables.h"
#include "runtime/own_time.h"
#include "runtime/runtime.h"

namespace warpsight::nvtx {
namespace {

void mark_ex(const EventAttributes* a) { mark(default_domain(), event_of(default_domain(), a)); }
void mark_a(const char* message) { mark(default_domain(), event_of(message)); }
void mark_w(const wchar_t* message) { mark(default_domain(), event_of(message)); }
uint64_t start_ex(const EventAttributes* a) { return start(default_domain(), event_of(default_domain(), a)); }
uint64_t start_a(const char* message) { return start(default_domain(), event_of(message)); }
uint64_t start_w(const wchar_t* message) { return start(default_domain(), event_of(message)); }
void range_end(uint64_t id) { end(default_domain(), id); }
int push_ex(const EventAttributes* a) {
  const OwnTime own(OwnSite::range);
  return push(default_domain(), event_of(default_domain(), a));
}
int push_a(const char* message) {
  const OwnTime own(OwnSite::range);
  return push(default_domain(), event_of(message));
}
int push_w(const wchar_t* message) {
  const OwnTime own(OwnSite::range);
  return push(default_domain(), event_of(message));
}
int range_pop() {
  const OwnTime own(OwnSite::range);
  return pop(default_domain());
}

void domain_mark(void* d, const EventAttributes* a) { mark(domain_of(d), event_of(domain_of(d), a)); }
uint64_t domain_start(void* d, const EventAttributes* a) {
  return start(domain_of(d), event_of(domain_of(d), a));
}
void domain_end(void* d, uint64_t id) { end(domain_of(d), id); }
int domain_push(void* d, const EventAttributes* a) {
  const OwnTime own(OwnSite::range);
  return push(domain_of(d), event_of(domain_of(d), a));
}
int domain_pop(void* d) {
  const OwnTime own(OwnSite::range);
  return pop(domain_of(d));
}

std::string text(const char* message) { return message != nullptr ? message : ""; }

void category_a(uint32_t category, const char* name) {
  name_category(default_domain(), category, text(name));
}
void category_w(uint32_t category, const wchar_t* name) {
  name_category(default_domain(), category, utf8(name));
}
void domain_category_a(void* d, uint32_t category, const char* name) {
  name_category(domain_of(d), category, text(name));
}
void domain_category_w(void* d, uint32_t category, const wchar_t* name) {
  name_category(domain_of(d), category, utf8(name));
}

void name_thread(uint32_t thread, const std::string& name) {
  if (!recording()) return;
  Thread row = {};
  row.thread = thread;
  row.name = intern(name);
  row.time = now_ns();
  write(row);
}
void thread_a(uint32_t thread, const char* name) { name_thread(thread, text(name)); }
void thread_w(uint32_t thread, const wchar_t* name) { name_thread(thread, utf8(name)); }

// Streams are the one CUDA object whose name a trace shows; the others keep their numbers.
void name_stream(const void* stream, uint32_t name) {
  if (recording() && name_cuda_stream) name_cuda_stream(stream, name);
}
void stream_a(const void* stream, const char* name) { name_stream(stream, intern(text(name))); }
void stream_w(const void* stream, const wchar_t* name) { name_stream(stream, intern(utf8(name))); }

void* register_string_a(void*, const char* string) { return register_string(text(string)); }
void* register_string_w(void*, const wchar_t* string) { return register_string(utf8(string)); }
void* create_domain_a(const char* name) { return create_domain(text(name)); }
void* create_domain_w(const wchar_t* name) { return create_domain(utf8(name)); }
void destroy_domain(void*) {}  // its events are recorded, and a name costs little
void initialize(const void*) {}

void* create_resource(void*, const ResourceAttributes* a) {
  static char resource;  // a handle is only ever given back to us
  if (a == nullptr) return nullptr;
  const bool stream =
      a->identifier_type == kCudaStreamResource || a->identifier_type == kCudaRtStreamResource;
  if (stream)
    name_stream(reinterpret_cast<const void*>(a->identifier), message_id(a->message_type, a->message));
  return &resource;
}
void destroy_resource(void*) {}

const Entry kEntries[] = {
    {kCore, kMarkEx, cast(mark_ex)},
    {kCore, kMarkA, cast(mark_a)},
    {kCore, kMarkW, cast(mark_w)},
    {kCore, kRangeStartEx, cast(start_ex)},
    {kCore, kRangeStartA, cast(start_a)},
    {kCore, kRangeStartW, cast(start_w)},
    {kCore, kRangeEnd, cast(range_end)},
    {kCore, kRangePushEx, cast(push_ex)},
    {kCore, kRangePushA, cast(push_a)},
    {kCore, kRangePushW, cast(push_w)},
    {kCore, kRangePop, cast(range_pop)},
    {kCore, kNameCategoryA, cast(category_a)},
    {kCore, kNameCategoryW, cast(category_w)},
    {kCore, kNameOsThreadA, cast(thread_a)},
    {kCore, kNameOsThreadW, cast(thread_w)},
    {kCore2, kDomainMarkEx, cast(domain_mark)},
    {kCore2, kDomainRangeStartEx, cast(domain_start)},
    {kCore2, kDomainRangeEnd, cast(domain_end)},
    {kCore2, kDomainRangePushEx, cast(domain_push)},
    {kCore2, kDomainRangePop, cast(domain_pop)},
    {kCore2, kDomainResourceCreate, cast(create_resource)},
    {kCore2, kDomainResourceDestroy, cast(destroy_resource)},
    {kCore2, kDomainNameCategoryA, cast(domain_category_a)},
    {kCore2, kDomainNameCategoryW, cast(domain_category_w)},
    {kCore2, kDomainRegisterStringA, cast(register_string_a)},
    {kCore2, kDomainRegisterStringW, cast(register_string_w)},
    {kCore2, kDomainCreateA, cast(create_domain_a)},
    {kCore2, kDomainCreateW, cast(create_domain_w)},
    {kCore2, kDomainDestroy, cast(destroy_domain)},
    {kCore2, kInitialize, cast(initialize)},
    {kCuda, kNameCuStreamA, cast(stream_a)},
    {kCuda, kNameCuStreamW, cast(stream_w)},
    {kCudaRt, kNameCudaStreamA, cast(stream_a)},
    {kCudaRt, kNameCudaStreamW, cast(stream_w)},
};

}  // namespace
}  // namespace warpsight::nvtx

// 1 if this process records; anything else permanently turns the program's NVTX calls into no-ops.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    warpsight::nvtx::GetExportTable get_export_table) {
  using namespace warpsight::nvtx;
  return warpsight::ensure_runtime() && fill_tables(get_export_table, kEntries) ? 1 : 0;
}
