// A stand-in for NCCL in a program: loads the profiler that NCCL_PROFILER_PLUGIN names, in the version asked
// for, and reports operations in the order in which NCCL's enqueue.cc does: call, launch of the kernel, then
// the operation.
//   nccl_program VERSION RANK RANKS STEP…
// Steps: all-reduce:COUNT, all-gather:COUNT, exchange:COUNT (AlltoAll as sends and receives in one kernel),
// send:PEER:COUNT, receive:PEER:COUNT, compute (a kernel), unreported (a collective that NCCL says nothing
// of), network (the next operation's parts), sync, wait:FILE (until it exists), report (events that NCCL was
// asked for, on stdout).
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "nccl/abi.h"
#include "standin.h"

using namespace standin;          // NOLINT
using namespace warpsight::nccl;  // NOLINT

namespace {

constexpr uint64_t kHash = 0xc0ffee1234, kChannels = 2;
constexpr size_t kItem = 4;  // Float32
constexpr uint8_t kFloat32 = 7;

struct Step {
  std::string what;
  std::vector<std::string> rest;
};

Step parse(const std::string& text) {
  Step step;
  size_t from = 0;
  for (size_t to = text.find(':');; to = text.find(':', from)) {
    std::string part = text.substr(from, to == std::string::npos ? to : to - from);
    if (from == 0)
      step.what = part;
    else
      step.rest.push_back(part);
    if (to == std::string::npos) return step;
    from = to + 1;
  }
}

void launch(const char* name) {
  cuLaunchKernel_params params = {};
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 128, params.blockDimY = params.blockDimZ = 1;
  params.hStream = reinterpret_cast<CUstream>(uintptr_t{7});
  Call call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &params,
            name);
  record_kernel(name, call.correlation(), 7, 0);
}

// NCCL without a profiler: operations are kernels and nothing else.
class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual void collective(const char* function, size_t count, bool parts);
  virtual void exchange(size_t count);
  virtual void message(bool sends, int peer, size_t count);
  virtual int mask() const { return 0; }
  int ranks = 0;
};

void Nccl::collective(const char* function, size_t, bool) {
  launch(strcmp(function, "AllReduce") == 0
             ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
             : "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
}
constexpr char kSendReceive[] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
void Nccl::exchange(size_t) { launch(kSendReceive); }
void Nccl::message(bool, int, size_t) { launch(kSendReceive); }

// NCCL's functions and types by number, as version 1 has them.
uint8_t number(const char* function) {
  if (strcmp(function, "AllReduce") == 0) return 4;
  if (strcmp(function, "AllGather") == 0) return 2;
  return strcmp(function, "Send") == 0 ? 6 : 7;
}

template <int kVersion, class Init, class D>
class Reporting : public Nccl {
 public:
  Reporting(void* library, int rank, int ranks_of_job) : rank_(rank) {
    ranks = ranks_of_job;
    const std::string name = "ncclProfiler_v" + std::to_string(kVersion);
    table_ = static_cast<Profiler<Init, D>*>(dlsym(library, name.c_str()));
    if (table_ == nullptr) _exit(73);
    int result = 0;
    if constexpr (kVersion < 4)
      result = table_->init(&context_, &mask_);
    else if constexpr (kVersion == 4)
      result = table_->init(&context_, &mask_, "data parallel", kHash, 1, ranks, rank, nullptr);
    else
      result = table_->init(&context_, kHash, &mask_, "data parallel", 1, ranks, rank, nullptr);
    if (result != 0) _exit(74);
  }
  ~Reporting() override { table_->finalize(context_); }
  int mask() const override { return mask_; }

  void collective(const char* function, size_t count, bool parts) override {
    void* call = begin_call(kCollectiveCall, function, count);
    Nccl::collective(function, count, parts);
    if ((mask_ & kCollective) == 0) return;
    D d = {};
    d.type = static_cast<decltype(d.type)>(kCollective);
    d.parent = call;
    d.rank = rank_;
    // As NCCL does, it gathers bytes whatever the type.
    const bool gathers = strcmp(function, "AllGather") == 0;
    d.collective.count = gathers ? count * kItem : count;
    d.collective.sequence = 0;
    if constexpr (kVersion == 1) {
      d.collective.function = number(function);
      d.collective.type = gathers ? 0 : kFloat32;
      d.collective.algorithm = 1;
      d.collective.protocol = 0;
    } else {
      d.collective.function = function;
      d.collective.type = gathers ? "ncclInt8" : "ncclFloat32";
      d.collective.algorithm = "RING";
      d.collective.protocol = "LL";
    }
    if constexpr (kVersion < 4) d.collective.communicator = kHash;
    d.collective.channels = kChannels;
    void* handle = nullptr;
    table_->start(context_, &handle, &d);
    table_->stop(handle);
    if (parts) network(handle);
  }

  void exchange(size_t count) override {
    Nccl::exchange(count);
    for (int peer = 0; peer < ranks; ++peer) {
      report(true, peer, count, "AlltoAll");
      report(false, peer, count, "AlltoAll");
    }
  }

  void message(bool sends, int peer, size_t count) override {
    Nccl::message(sends, peer, count);
    report(sends, peer, count, sends ? "Send" : "Recv");
  }

 private:
  void* begin_call(uint64_t type, const char* function, size_t count) {
    void* handle = nullptr;
    if constexpr (kVersion >= 5) {
      D d = {};
      d.type = type;
      d.call = {function, count, "ncclFloat32"};
      table_->start(context_, &handle, &d);
      table_->stop(handle);
    }
    (void)type, (void)function, (void)count;
    return handle;
  }

  void report(bool sends, int peer, size_t count, const char* called) {
    void* call = begin_call(kPointToPointCall, called, count);
    if ((mask_ & kPointToPoint) == 0) return;
    D d = {};
    d.type = static_cast<decltype(d.type)>(kPointToPoint);
    d.parent = call;
    d.rank = rank_;
    d.point_to_point.count = count;
    d.point_to_point.peer = peer;
    const char* const function = sends ? "Send" : "Recv";
    if constexpr (kVersion == 1) {
      d.point_to_point.function = number(function);
      d.point_to_point.type = kFloat32;
    } else {
      d.point_to_point.function = function;
      d.point_to_point.type = "ncclFloat32";
    }
    if constexpr (kVersion < 4) d.point_to_point.communicator = kHash;
    void* handle = nullptr;
    table_->start(context_, &handle, &d);
    table_->stop(handle);
  }

  // A proxy operation with two steps, and the kernel's channels, as the proxy thread reports them.
  void network(void* operation) {
    for (uint8_t channel = 0; channel < kChannels; ++channel) {
      if ((mask_ & kProxyOp) != 0) proxy(operation, channel);
      if ((mask_ & kKernelChannel) == 0) continue;
      D d = {};
      d.type = static_cast<decltype(d.type)>(kKernelChannel);
      d.parent = operation;
      d.channel = {channel, 1000};
      void* handle = nullptr;
      table_->start(context_, &handle, &d);
      StateArguments end = {};
      end.timer = 6000;
      if (kVersion >= 4) table_->state(handle, kKernelChannelStop, &end);
      table_->stop(handle);
    }
  }

  void proxy(void* operation, uint8_t channel) {
    D d = {};
    d.type = static_cast<decltype(d.type)>(kProxyOp);
    d.parent = operation;
    d.proxy_op = {getpid(), channel, (rank_ + 1) % ranks, 2, 4096, 1};
    void* op = nullptr;
    table_->start(context_, &op, &d);
    for (int number = 0; number < 2; ++number) {
      D s = {};
      s.type = static_cast<decltype(s.type)>(kProxyStep);
      s.parent = op;
      s.proxy_step.step = number;
      void* step = nullptr;
      table_->start(context_, &step, &s);
      StateArguments sent = {};
      table_->state(step, kSendGpuWait, &sent);
      sent.bytes = 4096;
      table_->state(step, kSendWait, &sent);
      table_->stop(step);
    }
    table_->stop(op);
  }

  Profiler<Init, D>* table_;
  void* context_ = nullptr;
  int mask_ = 0;
  int rank_;
};

Nccl* make(int version, int rank, int ranks) {
  const char* path = getenv("NCCL_PROFILER_PLUGIN");
  void* library =
      path != nullptr && strcasecmp(path, "none") != 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) return new Nccl;
  switch (version) {
    case 1:
      return new Reporting<1, InitV1, DescriptionV1>(library, rank, ranks);
    case 2:
      return new Reporting<2, InitV1, DescriptionV2>(library, rank, ranks);
    case 3:
      return new Reporting<3, InitV1, DescriptionV3>(library, rank, ranks);
    case 4:
      return new Reporting<4, InitV4, DescriptionV4>(library, rank, ranks);
    case 5:
      return new Reporting<5, InitV5, DescriptionV5>(library, rank, ranks);
    default:
      return new Reporting<6, InitV5, DescriptionV5>(library, rank, ranks);
  }
}

void run(Nccl* nccl, const Step& step, bool* parts) {
  auto count = [&step](size_t place) { return strtoul(step.rest.at(place).c_str(), nullptr, 10); };
  if (step.what == "network") {
    *parts = true;
    return;
  }
  if (step.what == "all-reduce") nccl->collective("AllReduce", count(0), *parts);
  if (step.what == "all-gather") nccl->collective("AllGather", count(0), *parts);
  if (step.what == "exchange") nccl->exchange(count(0));
  if (step.what == "send") nccl->message(true, static_cast<int>(count(0)), count(1));
  if (step.what == "receive") nccl->message(false, static_cast<int>(count(0)), count(1));
  if (step.what == "compute") launch("work");
  if (step.what == "unreported") nccl->Nccl::collective("AllReduce", 1, false);
  if (step.what == "sync") complete_everything();
  if (step.what == "wait")
    while (access(step.rest.at(0).c_str(), F_OK) != 0) usleep(1000);
  if (step.what == "report") {
    printf("%d\n", nccl->mask());
    fflush(stdout);
  }
  *parts = false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  cuInit(0), context_exists(), resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, nullptr, nullptr);
  Nccl* nccl = make(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
  bool parts = false;
  for (int i = 4; i < argc; ++i) run(nccl, parse(argv[i]), &parts);
  complete_everything();
  delete nccl;
  return 0;
}
