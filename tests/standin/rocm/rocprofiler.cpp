// librocprofiler-sdk, scripted: tools are found as the real one finds them, services call them as documented,
// and records are handed over on a thread of its own.
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "records.h"
#include "standin.h"

long option(const char* name, long otherwise) {
  const char* text = getenv("ROCM_STANDIN");
  const std::string wanted = std::string(name) + "=";
  while (text && *text) {
    if (strncmp(text, wanted.c_str(), wanted.size()) == 0) return atol(text + wanted.size());
    text = strchr(text, ',');
    if (text) ++text;
  }
  return otherwise;
}

namespace {

[[noreturn]] void violation(const char* rule) {
  fprintf(stderr, "stand-in: %s\n", rule);
  _exit(70);
}

const bool kNew = option("version", 10000) >= 10000;
const size_t kLonger = option("longer", 0) ? 32 : 0;  // as a version to come may be

struct Service {
  uint64_t context = 0;
  bool on = false;
  std::vector<int> operations;
  void* callback = nullptr;
  void* data = nullptr;
};
std::mutex g_lock;  // protects everything below
std::map<uint64_t, bool> g_started;
std::map<int, Service> g_callbacks, g_buffers;  // by kind
Service g_request;
uint64_t g_contexts = 0, g_ids = 0, g_dispatches = 0;
bool g_initializing = false, g_locked = false;
std::map<std::string, uint64_t> g_kernels;

struct Record {
  bool kernel, stuck;
  KernelRecord k;
  CopyRecord c;
};
std::vector<Record> g_running, g_buffer;
BufferCallback g_deliver = nullptr;
pid_t g_owner = 0;      // the process whose thread delivers
std::mutex g_flushing;  // one flush at a time

struct Call {
  int kind, operation;
  uint64_t internal, ancestor, user = 0;
  bool heard;
  std::vector<char> payload;
};
thread_local std::vector<Call*> t_calls;

uint64_t clock_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec +
         static_cast<uint64_t>(option("clock_ahead_s", 0)) * 1000000000ull;
}

uint64_t thread() { return static_cast<uint64_t>(syscall(SYS_gettid)); }

bool active(const Service& service, int operation) {
  if (!service.on || !g_started[service.context]) return false;
  const auto& all = service.operations;
  return all.empty() || std::find(all.begin(), all.end(), operation) != all.end();
}

void call_back(int kind, int operation, int phase, uint64_t internal, uint64_t ancestor, void* payload,
               uint64_t* user) {
  Service service;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    service = g_callbacks[kind];
  }
  if (kNew) {
    reinterpret_cast<NewCallback>(service.callback)(
        {service.context, thread(), internal, 0, ancestor, kind, operation, phase, payload}, user,
        service.data);
  } else {
    reinterpret_cast<OldCallback>(service.callback)(
        {service.context, thread(), internal, 0, kind, operation, phase, payload}, user, service.data);
  }
}

template <size_t count>
int place_of(const char* const (&list)[count], const char* name) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(list[i], name) == 0) return static_cast<int>(i) + static_cast<int>(option("renumber", 0));
  }
  violation("a function without a number");
}

bool heard(int kind, int operation) {
  std::lock_guard<std::mutex> guard(g_lock);
  return active(g_callbacks[kind], operation);
}

void* enter(const char* domain, const char* name, const void* arguments, size_t bytes) {
  auto* call = new Call;
  call->kind = strcmp(domain, "hip") == 0 ? HIP : MARKER;
  call->operation = call->kind == HIP ? place_of(kHip, name) : place_of(kMarkers, name);
  call->heard = heard(call->kind, call->operation);
  if (!call->heard) return call;
  call->ancestor = t_calls.empty() ? 0 : t_calls.back()->internal;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    call->internal = ++g_ids;
  }
  // {size, union of all functions' arguments, union of results}: 8 or, of ROCTx, 4 and 8 bytes in unions of
  // 24 and 8
  const uint64_t size = 8 + 160 + (call->kind == HIP ? 24 : 8);
  call->payload.assign(size, 0);
  memcpy(call->payload.data(), &size, sizeof size);
  memcpy(call->payload.data() + 8, arguments, bytes);
  t_calls.push_back(call);
  call_back(call->kind, call->operation, 1, call->internal, call->ancestor, call->payload.data(),
            &call->user);
  return call;
}

void leave(void* opaque, const void* result, size_t bytes) {
  auto* call = static_cast<Call*>(opaque);
  if (call->heard) {
    memcpy(call->payload.data() + call->payload.size() - (call->kind == HIP ? 24 : 8), result, bytes);
    if (heard(call->kind, call->operation))
      call_back(call->kind, call->operation, 2, call->internal, call->ancestor, call->payload.data(),
                &call->user);
    t_calls.erase(std::find(t_calls.begin(), t_calls.end(), call));
  }
  delete call;
}

uint64_t kernel_number(const char* name) {
  std::unique_lock<std::mutex> guard(g_lock);
  const auto [place, fresh] = g_kernels.try_emplace(name, 1000 + g_kernels.size());
  const uint64_t number = place->second;
  const bool tell = active(g_callbacks[CODE], 2);
  const bool first = g_kernels.size() == 1;
  guard.unlock();
  if (!fresh || !tell) return number;
  struct {
    uint64_t size, id, agent, hsa;
    const char* uri;
    uint64_t base, bytes;
    int64_t delta;
    int32_t storage;
    uint64_t memory[2];
  } code = {sizeof code, 7, 11, 0, "file:///opt/program#offset=4096&size=8192", 0x7000, 8192, 0, 0, {}};
  uint64_t user = 0;
  if (first) call_back(CODE, 1, 1, 0, 0, &code, &user);
  const std::string full = std::string(name) + ".kd";
  struct {
    uint64_t size, kernel, code;
    const char* name;
    uint64_t object;
    uint32_t arguments, alignment, lds, scratch, scalar, vector, accumulation;
  } symbol = {sizeof symbol, number, 7, full.c_str(), 0, 64, 16, 512, 16, 100, 24, 8};
  if (strncmp(name, "anonymous", 9) != 0) call_back(CODE, 2, 1, 0, 0, &symbol, &user);
  return number;
}

// The stand-in's own account of what the GPU did, for tests to compare with.
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));
void note(const char* format, ...) {
  static FILE* const file = getenv("ROCM_STANDIN_LOG") ? fopen(getenv("ROCM_STANDIN_LOG"), "ae") : nullptr;
  if (!file) return;
  va_list values;
  va_start(values, format);
  vfprintf(file, format, values);
  va_end(values);
  fflush(file);
}

Correlation correlation_of(int request_kind) {
  Correlation found = {};
  Service request;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    found.internal = t_calls.empty() ? ++g_ids : t_calls.back()->internal;
    request = g_request;
    if (request.on && !g_started[request.context]) request.on = false;
  }
  if (request.on &&
      reinterpret_cast<RequestCallback>(request.callback)(thread(), {request.context}, request_kind, 0,
                                                          found.internal, &found.external, request.data) != 0)
    found.external = 0;
  return found;
}

void dispatch(const char* name, dim3 grid, dim3 block, uint32_t shared, void* stream, int device) {
  Record record = {};
  record.kernel = true;
  record.stuck = strncmp(name, "stuck", 5) == 0;
  KernelRecord& k = record.k;
  k.info.kernel = kernel_number(name);
  const Correlation correlation = correlation_of(12);
  {
    std::lock_guard<std::mutex> guard(g_lock);
    if (!g_started[g_buffers[KERNELS].context] || !g_buffers[KERNELS].on) return;
    k.info.dispatch = ++g_dispatches;
  }
  k.size = sizeof k - sizeof k.to_come + kLonger;
  if (option("short_records", 0)) k.size = 48;
  k.kind = KERNELS, k.operation = 2;
  k.correlation = correlation;
  k.thread = thread();
  k.info.size = offsetof(Dispatch, reserved);
  k.info.agent = device == 0 ? 11 : 12;
  k.info.queue = 0x9000 + static_cast<uint64_t>(device);
  k.info.lds = 512 + shared;
  k.info.scratch = 16;
  const uint32_t groups[] = {grid.x, grid.y, grid.z}, blocks[] = {block.x, block.y, block.z};
  for (int i = 0; i < 3; ++i) k.info.block[i] = blocks[i], k.info.items[i] = groups[i] * blocks[i];
  struct {
    uint64_t size, start, end;
    Dispatch info;
  } data = {sizeof data, 0, 0, k.info};
  uint64_t user = 0;
  if (heard(DISPATCH, 1)) {
    call_back(DISPATCH, 1, 1, k.correlation.internal, 0, &data, &user);
    call_back(DISPATCH, 1, 2, k.correlation.internal, 0, &data, &user);
  }
  k.start = clock_now();
  k.end = k.start + 1000 + k.info.dispatch % 100;
  const long zero = option("zero_every", 0);
  if (zero && k.info.dispatch % static_cast<uint64_t>(zero) == 0) k.start = k.end = 0;
  note("kernel %s %llu %llu %llu %p %d %u %u %u\n", name, (unsigned long long)k.start,
       (unsigned long long)(k.end - k.start), (unsigned long long)k.correlation.internal, stream, device,
       grid.x, block.x, shared);
  std::lock_guard<std::mutex> guard(g_lock);
  g_running.push_back(record);
}

void copy(int direction, uint64_t bytes, void* stream, int source, int destination) {
  Record record = {};
  CopyRecord& c = record.c;
  const Correlation correlation = correlation_of(11);
  {
    std::lock_guard<std::mutex> guard(g_lock);
    if (!g_started[g_buffers[COPIES].context] || !g_buffers[COPIES].on) return;
  }
  c.size = (kNew ? sizeof c - sizeof c.to_come : offsetof(CopyRecord, destination)) + kLonger;
  c.kind = COPIES, c.operation = direction;
  c.correlation = correlation;
  c.thread = thread();
  c.start = clock_now();
  c.end = c.start + 5000;
  c.source_agent = static_cast<uint64_t>(10 + source);
  c.destination_agent = static_cast<uint64_t>(10 + destination);
  c.bytes = bytes;
  note("copy %d %llu %llu %p\n", direction, (unsigned long long)bytes,
       (unsigned long long)c.correlation.internal, stream);
  std::lock_guard<std::mutex> guard(g_lock);
  g_running.push_back(record);
}

void complete() {
  std::lock_guard<std::mutex> guard(g_lock);
  std::vector<Record> stuck;
  for (const Record& record : g_running) (record.stuck ? stuck : g_buffer).push_back(record);
  g_running = stuck;
}

bool listening() {
  std::lock_guard<std::mutex> guard(g_lock);
  return g_started[g_buffers[KERNELS].context];
}

bool delivered() {
  std::lock_guard<std::mutex> one(g_flushing);
  std::lock_guard<std::mutex> guard(g_lock);
  return g_buffer.empty();
}

// Hands the buffer over on another thread, as the real one does.
int flush() {
  if (getpid() != g_owner) violation("a flush in a forked child, where nobody delivers");
  std::lock_guard<std::mutex> one(g_flushing);
  std::vector<Record> records;
  {
    std::lock_guard<std::mutex> guard(g_lock);
    records.swap(g_buffer);
  }
  if (records.empty() || !g_deliver) return 0;
  if (option("reverse", 0)) std::reverse(records.begin(), records.end());
  std::thread worker([&records] {
    if (const long ms = option("late_ms", 0)) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    static uint64_t dropped = 0;
    dropped += static_cast<uint64_t>(option("drop", 0));
    std::vector<Header> headers;
    for (Record& record : records) {
      if (record.kernel)
        headers.push_back({1, KERNELS, &record.k});
      else
        headers.push_back({1, COPIES, &record.c});
    }
    headers.push_back({3, KERNELS, nullptr});  // of another category
    std::vector<void*> pointers;
    for (Header& header : headers) pointers.push_back(&header);
    g_deliver({g_buffers[KERNELS].context}, {1}, pointers.data(), pointers.size(), nullptr, dropped);
  });
  worker.join();
  return 0;
}

struct Result {
  size_t size;
  int (*initialize)(void (*)(), void*);
  void (*finalize)(void*);
  void* data;
};
std::vector<Result> g_tools;

void finalize() {  // in a forked child too, where the thread that delivers is gone
  if (getpid() == g_owner) complete();
  for (const Result& tool : g_tools) {
    if (tool.finalize) tool.finalize(tool.data);
  }
}

void configure(const std::string& path, uint32_t priority) {
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle) violation("a tool that cannot be loaded");
  const auto function = reinterpret_cast<Result* (*)(uint32_t, const char*, uint32_t, void*)>(
      dlsym(handle, "rocprofiler_configure"));
  if (!function) violation("a tool without rocprofiler_configure");
  // {name, handle} and, since 1.0, the size before them
  uint64_t client[3] = {kNew ? 24u : 0u, kNew ? 0u : 77u, 77u};
  const Result* result =
      function(static_cast<uint32_t>(option("version", 10000)), "stand-in", priority, client);
  if ((kNew ? client[0] : 24) != 24 || (kNew ? client[2] : client[1]) != 77)
    violation("the client id was overwritten");
  if (!result) return;
  if (result->size < sizeof(Result)) violation("a configuration without its size");
  const char* name = reinterpret_cast<const char*>(kNew ? client[1] : client[0]);
  if (!name || strcmp(name, "warpsight") != 0) violation("the client has no name");
  g_tools.push_back(*result);
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* libraries = getenv("ROCP_TOOL_LIBRARIES");
    if (!libraries) return;
    g_owner = getpid();
    atexit(finalize);
    g_initializing = true;
    uint32_t priority = 0;
    std::string rest = libraries;
    // As the real one parses it: what follows the last colon is not looked at.
    if (rest.find(':') == std::string::npos) configure(rest, priority);
    for (size_t at; (at = rest.find(':')) != std::string::npos; rest.erase(0, at + 1)) {
      if (at > 0) configure(rest.substr(0, at), priority++);
    }
    for (const Result& tool : g_tools) tool.initialize(nullptr, tool.data);
    g_initializing = false;
    g_locked = true;
  });
}

}  // namespace

STANDIN_EXPORT const Hooks standin_hooks = {initialize, enter,    leave,     dispatch,
                                            copy,       complete, listening, delivered};

// --- what tools call ---

STANDIN_EXPORT int rocprofiler_create_context(Id* context) {
  if (!g_initializing) return 16;
  if (context->handle) violation("a context id that is not zero");
  context->handle = ++g_contexts;
  return 0;
}

STANDIN_EXPORT int rocprofiler_start_context(Id context) {
  static std::map<uint64_t, long> refusals;
  std::lock_guard<std::mutex> guard(g_lock);
  const bool records = g_buffers[KERNELS].context == context.handle;
  if (records && refusals[context.handle]++ < option("refuse_start", 0)) return 12;
  g_started[context.handle] = true;
  return 0;
}

STANDIN_EXPORT int rocprofiler_stop_context(Id context) {
  std::lock_guard<std::mutex> guard(g_lock);
  g_started[context.handle] = false;
  return 0;
}

STANDIN_EXPORT int rocprofiler_create_buffer(Id, size_t size, size_t watermark, int policy,
                                             BufferCallback callback, void*, Id* buffer) {
  if (!g_initializing) return 16;
  if (watermark > size || policy != 2 || buffer->handle) violation("a buffer that could lose records");
  g_deliver = callback;
  buffer->handle = 1;
  return 0;
}

#ifndef STANDIN_LACKS
STANDIN_EXPORT int rocprofiler_flush_buffer(Id) { return flush(); }
#endif

STANDIN_EXPORT int rocprofiler_configure_buffer_tracing_service(Id context, int kind, const int*, size_t,
                                                                Id) {
  if (!g_initializing) return 16;
  g_buffers[kind] = {context.handle, true, {}, nullptr, nullptr};
  return 0;
}

STANDIN_EXPORT int rocprofiler_configure_callback_tracing_service(Id context, int kind, const int* operations,
                                                                  size_t count, void* callback, void* data) {
  if (!g_initializing) return 16;
  if (g_callbacks[kind].on) return 15;
  std::vector<int> chosen;
  if (operations) chosen.assign(operations, operations + count);
  g_callbacks[kind] = {context.handle, true, chosen, callback, data};
  return 0;
}

STANDIN_EXPORT int rocprofiler_query_callback_tracing_kind_operation_name(int kind, int operation,
                                                                          const char** name, uint64_t*) {
  const int place = operation - static_cast<int>(option("renumber", 0));
  *name = kind == HIP ? kHip[place] : kMarkers[place];
  return 0;
}

STANDIN_EXPORT int rocprofiler_iterate_callback_tracing_kind_operations(int kind,
                                                                        int (*each)(int, int, void*),
                                                                        void* data) {
  const int first = static_cast<int>(option("renumber", 0));
  const int count = kind == HIP ? std::size(kHip) : std::size(kMarkers);
  for (int i = 0; i < count; ++i) each(kind, first + i, data);
  return 0;
}

STANDIN_EXPORT int rocprofiler_query_callback_tracing_kind_name(int kind, const char** name, uint64_t*) {
  *name = kCallbackKinds[kind];
  return 0;
}

STANDIN_EXPORT int rocprofiler_query_buffer_tracing_kind_name(int kind, const char** name, uint64_t*) {
  *name = kBufferKinds[option("other_kinds", 0) ? kind - 1 : kind];
  return 0;
}

STANDIN_EXPORT int rocprofiler_configure_external_correlation_id_request_service(Id context, const int*,
                                                                                 size_t, void* callback,
                                                                                 void* data) {
  if (option("no_request", 0)) return 17;
  g_request = {context.handle, true, {}, callback, data};
  return 0;
}

STANDIN_EXPORT int rocprofiler_get_timestamp(uint64_t* time) {
  *time = clock_now();
  return 0;
}

STANDIN_EXPORT const char* rocprofiler_get_status_name(int status) {
  return status == 12 ? "ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT" : "ROCPROFILER_STATUS_ERROR";
}

STANDIN_EXPORT int rocprofiler_query_available_agents(int version,
                                                      int (*take)(int, const void**, size_t, void*),
                                                      size_t size, void* data) {
  // Fields at the places of the documented struct: 296 bytes, 312 with the UUID.
  static unsigned char agents[3][344];
  struct Bank {
    uint32_t heap, flags, width, clock;
    uint64_t bytes;
  };
  static const Bank bank = {1, 0, 8192, 1300, 64ull << 30};
  const uint64_t own = (kNew ? 312 : 296) + kLonger;
  if (size > own) return 18;
  static const void* pointers[3] = {agents[0], agents[1], agents[2]};
  for (int i = 0; i < 3; ++i) {
    unsigned char* agent = agents[i];
    const auto put = [agent](size_t at, auto value) { memcpy(agent + at, &value, sizeof value); };
    put(0, own), put(8, uint64_t(10 + i)), put(16, i == 0 ? 1 : 2);
    put(28, 1u), put(48, 8u), put(52, 64u), put(64, 64u), put(72, 304u), put(92, 4u), put(100, 90402u);
    put(104, uint16_t(0x1002)), put(108, uint32_t(i << 8)), put(112, 0u), put(140, 2100u);
    put(224, &bank), put(248, i == 0 ? "cpu" : "gfx942"), put(264, i == 0 ? "cpu" : "Stand-in Instinct");
    put(280, uint32_t(4000 + i)), put(288, i - 1);
    if (kNew) put(296, uint64_t(0x0102030405060700ull + i));
  }
  return take(version, pointers, 3, data);
}
