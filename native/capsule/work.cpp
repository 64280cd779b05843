#include "capsule/work.h"

#include <cupti.h>

namespace warpsight {
namespace {

#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Calls with _ptsz and _ptds mean the thread's own stream where others mean the null stream.
CUstream own_default(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

template <class Params>
Work launch(const Params& p) {
  Work work;
  work.kind = WorkKind::launch;
  work.stream = p.hStream;
  const uint32_t grid[] = {p.gridDimX, p.gridDimY, p.gridDimZ};
  const uint32_t block[] = {p.blockDimX, p.blockDimY, p.blockDimZ};
  for (int i = 0; i < 3; ++i) work.grid[i] = grid[i], work.block[i] = block[i];
  work.shared = p.sharedMemBytes;
  return work;
}

Work launch(const cuLaunchKernel_params& p) {
  Work work = launch<cuLaunchKernel_params>(p);
  work.function = p.f, work.params = p.kernelParams, work.extra = p.extra;
  return work;
}

Work launch(const cuLaunchKernelEx_params& p) {
  if (p.config == nullptr) return {};  // the driver refuses it
  Work work = launch(*p.config);
  work.function = p.f, work.params = p.kernelParams, work.extra = p.extra;
  work.attributes = p.config->attrs, work.attribute_count = p.config->numAttrs;
  return work;
}

Work launch(const cuLaunchCooperativeKernel_params& p) {
  Work work = launch<cuLaunchCooperativeKernel_params>(p);
  work.function = p.f, work.params = p.kernelParams, work.cooperative = true;
  return work;
}

Work row(uint64_t destination, bool destination_host, uint64_t source, bool source_host, uint64_t bytes,
         CUstream stream) {
  Work work;
  work.kind = bytes != 0 ? WorkKind::copy : WorkKind::none;
  work.destination = destination, work.destination_host = destination_host;
  work.source = source, work.source_host = source_host;
  work.bytes = bytes, work.stream = stream;
  return work;
}

// Where a side of a copy is; false for arrays.
bool side(CUmemorytype type, const void* host, CUdeviceptr device, uint64_t* address, bool* is_host,
          bool* unknown) {
  *is_host = type == CU_MEMORYTYPE_HOST;
  *unknown |= type == CU_MEMORYTYPE_UNIFIED;
  *address = *is_host ? number(host) : device;
  return type != CU_MEMORYTYPE_ARRAY;
}

template <class Copy>
Work rows(const Copy& p, size_t height, size_t depth, uint64_t source_rows, uint64_t destination_rows) {
  Work work;
  work.kind = WorkKind::copy;
  const bool linear =
      side(p.srcMemoryType, p.srcHost, p.srcDevice, &work.source, &work.source_host, &work.unknown_sides) &&
      side(p.dstMemoryType, p.dstHost, p.dstDevice, &work.destination, &work.destination_host,
           &work.unknown_sides);
  if (!linear || depth > 1) work.kind = WorkKind::unsupported;
  if (p.WidthInBytes == 0 || height == 0 || depth == 0) work.kind = WorkKind::none;
  work.source += p.srcXInBytes + (p.srcY + source_rows) * p.srcPitch;
  work.destination += p.dstXInBytes + (p.dstY + destination_rows) * p.dstPitch;
  work.bytes = p.WidthInBytes, work.rows = height;
  work.source_pitch = p.srcPitch, work.destination_pitch = p.dstPitch;
  return work;
}

Work area(const CUDA_MEMCPY2D& p, CUstream stream) {
  Work work = rows(p, p.Height, 1, 0, 0);
  work.stream = stream;
  return work;
}

Work fill(uint64_t destination, uint32_t value, uint32_t element, uint64_t count, uint64_t rows,
          uint64_t pitch, CUstream stream) {
  Work work;
  work.kind = count != 0 && rows != 0 ? WorkKind::set : WorkKind::none;
  work.destination = destination, work.value = value, work.element = element;
  work.bytes = count * element, work.rows = rows, work.destination_pitch = pitch, work.stream = stream;
  return work;
}

Work event(WorkKind kind, CUstream stream, CUevent event) {
  Work work;
  work.kind = kind, work.stream = stream, work.event = event;
  return work;
}

Work graph(CUgraphExec graph, CUstream stream) {
  Work work;
  work.kind = WorkKind::graph, work.graph = graph, work.stream = stream;
  return work;
}

Work unknown(Work work) {
  work.unknown_sides = true;
  return work;
}

// Each call that is understood: its callback id, its arguments `p`, and the work. Those that write:
#define WARPSIGHT_WRITES(X)                                                                         \
  X(cuLaunchKernel, launch(p))                                                                      \
  X(cuLaunchKernelEx, launch(p))                                                                    \
  X(cuLaunchCooperativeKernel, launch(p))                                                           \
  X(cuMemcpyHtoD_v2, row(p.dstDevice, false, number(p.srcHost), true, p.ByteCount, nullptr))        \
  X(cuMemcpyDtoH_v2, row(number(p.dstHost), true, p.srcDevice, false, p.ByteCount, nullptr))        \
  X(cuMemcpyDtoD_v2, row(p.dstDevice, false, p.srcDevice, false, p.ByteCount, nullptr))             \
  X(cuMemcpy, unknown(row(p.dst, false, p.src, false, p.ByteCount, nullptr)))                       \
  X(cuMemcpyHtoDAsync_v2, row(p.dstDevice, false, number(p.srcHost), true, p.ByteCount, p.hStream)) \
  X(cuMemcpyDtoHAsync_v2, row(number(p.dstHost), true, p.srcDevice, false, p.ByteCount, p.hStream)) \
  X(cuMemcpyDtoDAsync_v2, row(p.dstDevice, false, p.srcDevice, false, p.ByteCount, p.hStream))      \
  X(cuMemcpyAsync, unknown(row(p.dst, false, p.src, false, p.ByteCount, p.hStream)))                \
  X(cuMemcpy2D_v2, area(*p.pCopy, nullptr))                                                         \
  X(cuMemcpy2DUnaligned_v2, area(*p.pCopy, nullptr))                                                \
  X(cuMemcpy2DAsync_v2, area(*p.pCopy, p.hStream))                                                  \
  X(cuMemcpy3D_v2, copy_of(*p.pCopy))                                                               \
  X(cuMemsetD8_v2, fill(p.dstDevice, p.uc, 1, p.N, 1, 0, nullptr))                                  \
  X(cuMemsetD16_v2, fill(p.dstDevice, p.us, 2, p.N, 1, 0, nullptr))                                 \
  X(cuMemsetD32_v2, fill(p.dstDevice, p.ui, 4, p.N, 1, 0, nullptr))                                 \
  X(cuMemsetD2D8_v2, fill(p.dstDevice, p.uc, 1, p.Width, p.Height, p.dstPitch, nullptr))            \
  X(cuMemsetD2D16_v2, fill(p.dstDevice, p.us, 2, p.Width, p.Height, p.dstPitch, nullptr))           \
  X(cuMemsetD2D32_v2, fill(p.dstDevice, p.ui, 4, p.Width, p.Height, p.dstPitch, nullptr))           \
  X(cuMemsetD8Async, fill(p.dstDevice, p.uc, 1, p.N, 1, 0, p.hStream))                              \
  X(cuMemsetD16Async, fill(p.dstDevice, p.us, 2, p.N, 1, 0, p.hStream))                             \
  X(cuMemsetD32Async, fill(p.dstDevice, p.ui, 4, p.N, 1, 0, p.hStream))                             \
  X(cuMemsetD2D8Async, fill(p.dstDevice, p.uc, 1, p.Width, p.Height, p.dstPitch, p.hStream))        \
  X(cuMemsetD2D16Async, fill(p.dstDevice, p.us, 2, p.Width, p.Height, p.dstPitch, p.hStream))       \
  X(cuMemsetD2D32Async, fill(p.dstDevice, p.ui, 4, p.Width, p.Height, p.dstPitch, p.hStream))       \
  X(cuGraphLaunch, graph(p.hGraph, p.hStream))

// Those that order and wait.
#define WARPSIGHT_ORDER(X)                                                \
  X(cuEventRecord, event(WorkKind::record, p.hStream, p.hEvent))          \
  X(cuEventRecordWithFlags, event(WorkKind::record, p.hStream, p.hEvent)) \
  X(cuStreamWaitEvent, event(WorkKind::wait, p.hStream, p.hEvent))        \
  X(cuStreamSynchronize, event(WorkKind::stream_wait, p.hStream, nullptr))

// clang-format off
// The calls whose other form, for the thread's own default stream, has this ending.
#define WARPSIGHT_WRITES_PTSZ(X) \
  X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuMemcpyHtoDAsync_v2) \
  X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemcpyAsync) X(cuMemcpy2DAsync_v2) \
  X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) \
  X(cuMemsetD2D32Async) X(cuGraphLaunch)
#define WARPSIGHT_ORDER_PTSZ(X) \
  X(cuEventRecord) X(cuEventRecordWithFlags) X(cuStreamWaitEvent) X(cuStreamSynchronize)
#define WARPSIGHT_PTDS(X) \
  X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2) X(cuMemcpy) X(cuMemcpy2D_v2) \
  X(cuMemcpy2DUnaligned_v2) X(cuMemcpy3D_v2) X(cuMemsetD8_v2) X(cuMemsetD16_v2) X(cuMemsetD32_v2) \
  X(cuMemsetD2D8_v2) X(cuMemsetD2D16_v2) X(cuMemsetD2D32_v2)

// Calls that put work on the GPU which a capsule cannot hold.
#define WARPSIGHT_UNSUPPORTED(X) \
  X(cuLaunch) X(cuLaunchGrid) X(cuLaunchGridAsync) X(cuLaunchCooperativeKernelMultiDevice) \
  X(cuLaunchHostFunc) X(cuLaunchHostFunc_ptsz) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) \
  X(cuMemcpyPeerAsync_ptsz) X(cuMemcpyPeer_ptds) X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) \
  X(cuMemcpy3DPeerAsync_ptsz) X(cuMemcpy3DPeer_ptds) X(cuMemcpy3DAsync_v2) X(cuMemcpy3DAsync_v2_ptsz) \
  X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz) X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_ptsz) \
  X(cuMemcpyAtoA_v2) X(cuMemcpyAtoD_v2) X(cuMemcpyAtoH_v2) X(cuMemcpyDtoA_v2) X(cuMemcpyHtoA_v2) \
  X(cuMemcpyAtoHAsync_v2) X(cuMemcpyHtoAAsync_v2) X(cuStreamWaitValue32_v2) X(cuStreamWaitValue64_v2) \
  X(cuStreamWriteValue32_v2) X(cuStreamWriteValue64_v2) X(cuStreamBatchMemOp_v2) \
  X(cuStreamWaitValue32_v2_ptsz) X(cuStreamWaitValue64_v2_ptsz) X(cuStreamWriteValue32_v2_ptsz) \
  X(cuStreamWriteValue64_v2_ptsz) X(cuStreamBatchMemOp_v2_ptsz) X(cuMemcpyBatchAsync_v2) \
  X(cuMemcpyBatchAsync_v2_ptsz) X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz) \
  X(cuMemcpyAtoA_v2_ptds) X(cuMemcpyAtoD_v2_ptds) X(cuMemcpyAtoH_v2_ptds) X(cuMemcpyDtoA_v2_ptds) \
  X(cuMemcpyHtoA_v2_ptds) X(cuMemcpyAtoHAsync_v2_ptsz) X(cuMemcpyHtoAAsync_v2_ptsz)
// clang-format on

// The call without the ending; the arguments of both forms are laid out alike.
uint32_t plain(uint32_t cbid, bool* own) {
  *own = true;
  switch (cbid) {
#define WARPSIGHT_PLAIN(name) \
  case CBID(name##_ptsz):     \
    return CBID(name);
    WARPSIGHT_WRITES_PTSZ(WARPSIGHT_PLAIN)
    WARPSIGHT_ORDER_PTSZ(WARPSIGHT_PLAIN)
#undef WARPSIGHT_PLAIN
#define WARPSIGHT_PLAIN(name) \
  case CBID(name##_ptds):     \
    return CBID(name);
    WARPSIGHT_PTDS(WARPSIGHT_PLAIN)
#undef WARPSIGHT_PLAIN
    default:
      *own = false;
      return cbid;
  }
}

Work plain_work(uint32_t cbid, const void* params) {
  switch (cbid) {
#define WARPSIGHT_CASE(name, work)                              \
  case CBID(name): {                                            \
    const auto& p = *static_cast<const name##_params*>(params); \
    return work;                                                \
  }
    WARPSIGHT_WRITES(WARPSIGHT_CASE)
    WARPSIGHT_ORDER(WARPSIGHT_CASE)
#undef WARPSIGHT_CASE
    case CBID(cuEventSynchronize):
      return event(WorkKind::event_wait, nullptr,
                   static_cast<const cuEventSynchronize_params*>(params)->hEvent);
    case CBID(cuCtxSynchronize):
      return event(WorkKind::context_wait, nullptr, nullptr);
    default: {
      Work work;
      work.kind = WorkKind::unsupported;
      return work;
    }
  }
}

}  // namespace

const std::vector<uint32_t>& writing_calls() {
  static const auto& all = *new std::vector<uint32_t>{// never destroyed: programs call us at their end
#define WARPSIGHT_ID(name, ...) CBID(name),
                                                      WARPSIGHT_WRITES(WARPSIGHT_ID)
#undef WARPSIGHT_ID
#define WARPSIGHT_ID(name) CBID(name##_ptsz),
                                                          WARPSIGHT_WRITES_PTSZ(WARPSIGHT_ID)
#undef WARPSIGHT_ID
#define WARPSIGHT_ID(name) CBID(name##_ptds),
                                                              WARPSIGHT_PTDS(WARPSIGHT_ID)
#undef WARPSIGHT_ID
  };
  return all;
}

const std::vector<uint32_t>& ordering_calls() {
  static const auto& all =
      *new std::vector<uint32_t>{// never destroyed: programs call us at their end
#define WARPSIGHT_ID(name, ...) CBID(name),
                                 WARPSIGHT_ORDER(WARPSIGHT_ID) WARPSIGHT_UNSUPPORTED(WARPSIGHT_ID)
#undef WARPSIGHT_ID
#define WARPSIGHT_ID(name) CBID(name##_ptsz),
                                     WARPSIGHT_ORDER_PTSZ(WARPSIGHT_ID)
#undef WARPSIGHT_ID
                                         CBID(cuEventSynchronize),
                                 CBID(cuCtxSynchronize)};
  return all;
}

bool is_launch(uint32_t cbid) {
  bool own = false;
  switch (plain(cbid, &own)) {
    case CBID(cuLaunchKernel):
    case CBID(cuLaunchKernelEx):
    case CBID(cuLaunchCooperativeKernel):
    case CBID(cuGraphLaunch):
      return true;
    default:
      return false;
  }
}

bool kernel_launch_of(uint32_t cbid, const void* params, KernelLaunch* launch) {
  bool own = false;
  switch (plain(cbid, &own)) {
    case CBID(cuLaunchKernel): {
      const auto& p = *static_cast<const cuLaunchKernel_params*>(params);
      *launch = {p.f, p.hStream, p.kernelParams};
      break;
    }
    case CBID(cuLaunchKernelEx): {
      const auto& p = *static_cast<const cuLaunchKernelEx_params*>(params);
      if (p.config == nullptr) return false;
      *launch = {p.f, p.config->hStream, p.kernelParams};
      break;
    }
    case CBID(cuLaunchCooperativeKernel): {
      const auto& p = *static_cast<const cuLaunchCooperativeKernel_params*>(params);
      *launch = {p.f, p.hStream, p.kernelParams};
      break;
    }
    default:
      return false;
  }
  if (own) launch->stream = own_default(launch->stream);
  return true;
}

Work work_of(uint32_t cbid, const void* params) {
  bool own = false;
  Work work = plain_work(plain(cbid, &own), params);
  if (own) work.stream = own_default(work.stream);
  return work;
}

Work copy_of(const CUDA_MEMCPY3D& copy) {
  return rows(copy, copy.Height, copy.Depth, copy.srcZ * copy.srcHeight, copy.dstZ * copy.dstHeight);
}

Work set_of(const CUDA_MEMSET_NODE_PARAMS& set) {
  return fill(set.dst, set.value, set.elementSize, set.width, set.height, set.pitch, nullptr);
}

}  // namespace warpsight
