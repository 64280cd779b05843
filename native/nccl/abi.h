// The part of NCCL's profiler interface that is used, versions 1 to 6, declared from its public documentation
// (NCCL's plugins/profiler/README.md). NCCL looks for the table with the highest number that it knows.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace warpsight::nccl {

enum Type : uint64_t {
  kGroup = 1 << 0,
  kCollective = 1 << 1,
  kPointToPoint = 1 << 2,
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kKernelChannel = 1 << 6,
  kCollectiveCall = 1 << 9,
  kPointToPointCall = 1 << 10,
  kCopyEngine = 1 << 12,
};

enum State : int {
  kSendDone = 3,  // of a proxy operation, before version 4; so is the next
  kReceiveDone = 7,
  kSendGpuWait = 8,
  kSendWait = 9,
  kReceiveWait = 10,
  kReceiveFlushWait = 11,
  kReceiveGpuWait = 12,
  kSendPeerWait = 20,
  kKernelChannelStop = 22,
};

// Parts that several versions share.
struct ProxyOpPart {
  pid_t pid;  // of the process whose operation it is
  uint8_t channel;
  int peer, steps, chunk, is_send;
};
struct ProxyStepPart {
  int step;
};
struct ChannelPart {  // from version 3
  uint8_t channel;
  uint64_t timer;  // from version 4: the GPU's clock, ns
};
struct CallPart {  // from version 5: the call of a collective
  const char* function;
  size_t count;
  const char* type;
};

struct CollectiveV1 {
  const char* name;
  uint64_t communicator, sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t type;
  uint32_t reduction;
  size_t traffic;
  uint8_t channels, warps, algorithm, protocol;
  int collnet, nvls;
};
struct PointToPointV1 {
  const char* name;
  uint64_t communicator;
  uint8_t function;
  void* buffer;
  uint8_t type;
  size_t count;
  int peer;
};
struct CollectiveV2 {
  const char* name;
  uint64_t communicator, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  size_t traffic;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct CollectiveV3 {
  const char* name;
  uint64_t communicator, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct PointToPointV2 {
  const char* name;
  uint64_t communicator;
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
};
struct CollectiveV4 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* group;  // from version 5
};
struct PointToPointV4 {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
  void* group;  // from version 5
};
struct CopyEngineV6 {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
};

template <class TypeField, class Collective, class PointToPoint>
struct Description {
  TypeField type;
  void* parent;
  int rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
    ChannelPart channel;
    CallPart call;
    CopyEngineV6 copy_engine;
  };
};
using DescriptionV1 = Description<uint8_t, CollectiveV1, PointToPointV1>;
using DescriptionV2 = Description<uint8_t, CollectiveV2, PointToPointV2>;
using DescriptionV3 = Description<uint8_t, CollectiveV3, PointToPointV2>;
using DescriptionV4 = Description<uint8_t, CollectiveV4, PointToPointV4>;
using DescriptionV5 = Description<uint64_t, CollectiveV4, PointToPointV4>;

union StateArguments {
  size_t bytes;    // of a transfer
  uint64_t timer;  // of a channel, from version 4
};

// The table that NCCL looks up as ncclProfiler_vN. Every function returns 0: our failures must not affect
// NCCL.
template <class Init, class Description>
struct Profiler {
  const char* name;
  Init init;
  int (*start)(void* context, void** handle, Description* description);
  int (*stop)(void* handle);
  int (*state)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};
using Log = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
using InitV1 = int (*)(void** context, int* mask);
using InitV4 = int (*)(void** context, int* mask, const char* name, uint64_t communicator, int nodes,
                       int ranks, int rank, Log log);
using InitV5 = int (*)(void** context, uint64_t communicator, int* mask, const char* name, int nodes,
                       int ranks, int rank, Log log);

}  // namespace warpsight::nccl
