// NCCL loads this library as its profiler plugin (NCCL_PROFILER_PLUGIN) and reports every operation on the
// launching thread, once launched. A process that is not recorded requests no events. A handle is a number
// that encodes what NCCL may still ask about, so operations need no memory: bits 0-3 its kind, 4-11 element
// type of a call, 12-19 function of a call, 4- number of an operation or part.
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "cuda/cuda.h"
#include "nccl/abi.h"
#include "nccl/communicator.h"
#include "nccl/parts.h"
#include "runtime/runtime.h"

namespace warpsight::nccl {
namespace {

enum Handle : uint64_t { kOther = 1, kOperation = 2, kCall = 3, kPart = 4 };
constexpr const char* kFunctions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv",
                                      "AlltoAll",  "Scatter",  "Gather"};  // by number, as in version 1
constexpr const char* kTypes[] = {"Int8",       "Uint8",     "Int32",   "Uint32",  "Int64",
                                  "Uint64",     "Float16",   "Float32", "Float64", "Bfloat16",
                                  "Float8e4m3", "Float8e5m2"};  // the same, prefixed with "nccl"
constexpr const char* kAlgorithms[] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                       "NVLS_TREE", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "SIMPLE"};

std::atomic<uint64_t> g_operations{0};  // numbers of operations in this process, from 1
char g_unrecorded;                      // the context of a process that is not recorded

template <size_t N>
const char* text(const char* const (&texts)[N], uint32_t number) {
  return number < N ? texts[number] : nullptr;
}
const char* plain(const char* name) {
  return name != nullptr && strncmp(name, "nccl", 4) == 0 ? name + 4 : name;
}
template <size_t N>
uint64_t number_of(const char* const (&texts)[N], const char* name) {  // from 1; 0 unknown
  for (size_t i = 0; name != nullptr && i < N; ++i) {
    if (strcmp(texts[i], plain(name)) == 0) return i + 1;
  }
  return 0;
}

void* handle_of(Handle what, uint64_t value) { return reinterpret_cast<void*>(value << 4 | what); }
Handle what_is(const void* handle) { return static_cast<Handle>(reinterpret_cast<uintptr_t>(handle) & 15); }
uint64_t value_of(const void* handle, Handle what) {
  return what_is(handle) == what ? reinterpret_cast<uintptr_t>(handle) >> 4 : 0;
}

// The fields of an operation common to all versions.
struct Operation {
  Communicator* communicator;
  const char *function, *type, *algorithm, *protocol;
  uint64_t count;
  int root, peer;
  uint32_t channels;
  const void* call;  // handle of the call that it is part of
  bool launched;     // by a kernel of this thread, just now
};

// Gives the operation its number and writes its row.
void* on_operation(const Operation& one) {
  const uint64_t id = g_operations.fetch_add(1, std::memory_order_relaxed) + 1;
  Communicator* const in = one.communicator;
  if (in == nullptr) return handle_of(kOperation, id);
  const bool paired = one.peer >= 0;
  const bool sends = one.function != nullptr && strcmp(plain(one.function), "Send") == 0;
  const uint64_t sequence = paired ? in->next_message(sends, one.peer) : in->next_collective();
  if (!recording()) return handle_of(kOperation, id);
  const uint64_t call = value_of(one.call, kCall);
  const char* const type = text(kTypes, static_cast<uint32_t>(call & 0xff) - 1);
  const char* const called = text(kFunctions, static_cast<uint32_t>(call >> 8 & 0xff) - 1);
  Collective row = {};
  row.start = now_ns();
  row.communicator = in->hash();
  row.sequence = sequence;
  row.count = one.count;
  row.id = id;
  if (one.launched && last_launch_of_thread) row.correlation = last_launch_of_thread();
  if (one.function != nullptr) row.operation = intern_c(plain(one.function));
  if (called != nullptr) row.call = intern_c(called);
  if (one.type != nullptr) row.dtype = intern_c(plain(one.type));
  if (type != nullptr) row.call_dtype = intern_c(type);
  if (one.algorithm != nullptr) row.algorithm = intern_c(one.algorithm);
  if (one.protocol != nullptr) row.protocol = intern_c(one.protocol);
  row.name = intern_c(in->name());
  row.ranks = in->ranks();
  row.rank = in->rank();
  row.peer = one.peer;
  row.root = paired ? -1 : one.root;
  row.channels = one.channels;
  write(row);
  return handle_of(kOperation, id);
}

// --- what versions differ in ---

Operation collective(const CollectiveV1& c, void*, int rank) {
  return {Communicator::of_hash(c.communicator, rank),
          text(kFunctions, c.function),
          text(kTypes, c.type),
          text(kAlgorithms, c.algorithm),
          text(kProtocols, c.protocol),
          c.count,
          c.root,
          -1,
          c.channels,
          nullptr,
          true};
}
template <class C>
Operation named(Communicator* in, const C& c, const void* call) {
  return {in, c.function, c.type, c.algorithm, c.protocol, c.count, c.root, -1, c.channels, call, true};
}
Operation collective(const CollectiveV2& c, void*, int rank) {
  return named(Communicator::of_hash(c.communicator, rank), c, nullptr);
}
Operation collective(const CollectiveV3& c, void*, int rank) {
  return named(Communicator::of_hash(c.communicator, rank), c, nullptr);
}
Operation collective(const CollectiveV4& c, void* context, int) {
  return named(static_cast<Communicator*>(context), c, nullptr);
}
Operation message(const PointToPointV1& m, void*, int rank) {
  return {Communicator::of_hash(m.communicator, rank),
          text(kFunctions, m.function),
          text(kTypes, m.type),
          nullptr,
          nullptr,
          m.count,
          -1,
          m.peer,
          0,
          nullptr,
          true};
}
Operation message(const PointToPointV2& m, void*, int rank) {
  return {Communicator::of_hash(m.communicator, rank),
          m.function,
          m.type,
          nullptr,
          nullptr,
          m.count,
          -1,
          m.peer,
          0,
          nullptr,
          true};
}
Operation message(const PointToPointV4& m, void* context, int) {
  return {static_cast<Communicator*>(context),
          m.function,
          m.type,
          nullptr,
          nullptr,
          m.count,
          -1,
          m.peer,
          m.channels,
          nullptr,
          true};
}
Operation copies(const CopyEngineV6& c, void* context) {
  return {static_cast<Communicator*>(context),
          c.function,
          c.type,
          "COPY_ENGINE",
          nullptr,
          c.count,
          c.root,
          -1,
          0,
          nullptr,
          false};
}

uint64_t hash_of(void* context) {
  return context == nullptr || context == &g_unrecorded ? 0 : static_cast<Communicator*>(context)->hash();
}

template <class D>
PartStart part_of(const D& d, void* context, int version) {
  PartStart start = {};
  start.operation = value_of(d.parent, kOperation);
  start.communicator = hash_of(context);
  start.peer = start.step = -1;
  if (d.type == kProxyOp) {
    start.kind = PartKind::proxy_op;
    // Of another process's operation (PXN) the parent is an address there.
    if (d.proxy_op.pid != getpid()) start.operation = 0;
    start.channel = d.proxy_op.channel;
    start.peer = d.proxy_op.peer;
    start.step = d.proxy_op.steps;
    start.sends = d.proxy_op.is_send != 0;
  } else if (d.type == kProxyStep) {
    start = part_start(value_of(d.parent, kPart));
    start.kind = PartKind::proxy_step;
    start.step = d.proxy_step.step;
  } else {
    start.kind = PartKind::channel;
    start.channel = d.channel.channel;
    if (version >= 4) start.timer = d.channel.timer;
  }
  return start;
}

template <class D, int kVersion>
int start(void* context, void** handle, D* d) {
  if (handle == nullptr || d == nullptr) return 0;
  *handle = handle_of(kOther, 0);
  if (context == &g_unrecorded) return 0;
  switch (static_cast<uint64_t>(d->type)) {
    case kCollective: {
      Operation one = collective(d->collective, context, d->rank);
      if (kVersion >= 5) one.call = d->parent;
      *handle = on_operation(one);
      break;
    }
    case kPointToPoint: {
      Operation one = message(d->point_to_point, context, d->rank);
      if (kVersion >= 5) one.call = d->parent;
      *handle = on_operation(one);
      break;
    }
    case kCopyEngine:
      if (kVersion >= 6) {
        Operation one = copies(d->copy_engine, context);
        one.call = d->parent;
        *handle = on_operation(one);
      }
      break;
    case kCollectiveCall:
    case kPointToPointCall:
      *handle =
          handle_of(kCall, number_of(kTypes, d->call.type) | number_of(kFunctions, d->call.function) << 8);
      break;
    case kProxyOp:
    case kProxyStep:
    case kKernelChannel:
      *handle = handle_of(kPart, begin_part(part_of(*d, kVersion >= 4 ? context : nullptr, kVersion)));
      break;
    default:
      break;
  }
  return 0;
}

int stop(void* handle) {
  end_part(value_of(handle, kPart));
  return 0;
}

int state(void* handle, int state, StateArguments* arguments) {
  part_state(value_of(handle, kPart), state, arguments);
  return 0;
}

// Which events NCCL should report: operations, and with `--nccl on` also their parts.
int wanted() {
  if (!ensure_runtime() || settings().nccl == NcclMode::off) return 0;
  const uint64_t operations = kCollective | kPointToPoint | kCopyEngine;
  const uint64_t all = operations | kProxyOp | kProxyStep | kKernelChannel;
  return static_cast<int>(settings().nccl == NcclMode::on ? all : operations);
}

int init(void** context, int* mask, uint64_t hash, const char* name, int ranks, int rank) {
  const int events = wanted();
  Communicator* const one =
      events != 0 && ranks > 0 ? Communicator::create(hash, name, ranks, rank) : nullptr;
  *context = one != nullptr ? static_cast<void*>(one) : &g_unrecorded;
  *mask = one != nullptr ? events : 0;
  return 0;
}
int init_v1(void** context, int* mask) {
  static char recorded;
  const int events = wanted();
  *context = events != 0 ? &recorded : &g_unrecorded;
  *mask = events;
  return 0;
}
int init_v4(void** context, int* mask, const char* name, uint64_t hash, int, int ranks, int rank, Log) {
  return init(context, mask, hash, name, ranks, rank);
}
int init_v5(void** context, uint64_t hash, int* mask, const char* name, int, int ranks, int rank, Log) {
  return init(context, mask, hash, name, ranks, rank);
}

int finalize_v1(void*) { return 0; }
int finalize(void* context) {
  if (context != &g_unrecorded) Communicator::destroy(static_cast<Communicator*>(context));
  return 0;
}

}  // namespace
}  // namespace warpsight::nccl

using namespace warpsight::nccl;

extern "C" {
#define WARPSIGHT_VERSION_TABLE(number, Init, Description, init, finish)                                  \
  __attribute__((visibility("default"))) extern const Profiler<Init, Description> ncclProfiler_v##number; \
  const Profiler<Init, Description> ncclProfiler_v##number = {                                            \
      "warpsight", init, start<Description, number>, stop, state, finish}
WARPSIGHT_VERSION_TABLE(1, InitV1, DescriptionV1, init_v1, finalize_v1);
WARPSIGHT_VERSION_TABLE(2, InitV1, DescriptionV2, init_v1, finalize_v1);
WARPSIGHT_VERSION_TABLE(3, InitV1, DescriptionV3, init_v1, finalize_v1);
WARPSIGHT_VERSION_TABLE(4, InitV4, DescriptionV4, init_v4, finalize);
WARPSIGHT_VERSION_TABLE(5, InitV5, DescriptionV5, init_v5, finalize);
WARPSIGHT_VERSION_TABLE(6, InitV5, DescriptionV5, init_v5, finalize);
}
