// The tracer's state for each context: memory for its ring, on the host and on the device, and its contents.
#include <string.h>

#include <algorithm>

#include "nvbit/tracer.h"

namespace warpsight {
namespace {

// Words on the device, before a WsTool.
constexpr uint32_t kCounters = 1 << 14;  // more launches than a context can have in flight
constexpr uint32_t kHead = 0, kTailSeen = 16, kFirstCounter = 32, kGraphs = kFirstCounter + kCounters,
                   kMaps = kGraphs + GraphLaunches::kDeviceWords;
constexpr size_t kCounterBytes = (size_t{kMaps} + WS_TENSOR_MAPS) * sizeof(uint64_t);
// In the host's memory, after the ring's words.
constexpr size_t kTailBytes = 4096, kGraphBytes = GraphLaunches::kHostWords * sizeof(uint64_t);

uint32_t limited(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, ~0u)); }

}  // namespace

// `host`: the ring, as the device sees it, at `words`; `counters`: on the device.
WsTool NvbitTracer::tool_of(void* host, CUdeviceptr words, CUdeviceptr counters,
                            GraphLaunches* graphs) const {
  using Word = unsigned long long;
  auto* const device = reinterpret_cast<Word*>(counters);
  const size_t graphs_at = request_.ring_bytes + kTailBytes;
  WsTool tool = {};
  tool.ring = reinterpret_cast<Word*>(words);
  tool.mask = request_.ring_bytes / sizeof(uint64_t) - 1;
  tool.head = device + kHead;
  tool.tail = reinterpret_cast<const volatile Word*>(words + request_.ring_bytes);
  tool.tail_seen = device + kTailSeen;
  tool.zero = zero_;
  tool.counters = device + kFirstCounter;
  tool.counter_mask = kCounters - 1;
  tool.maps = device + kMaps;
  tool.first = request_.first;
  tool.every = request_.every;
  tool.warps = request_.warps;
  tool.block_low = limited(request_.blocks.low);
  tool.block_high = limited(request_.blocks.high);
  tool.thins = request_.every > 1 || request_.first != ~0ull ? 1 : 0;
  tool.shapes = graphs->place(reinterpret_cast<uint64_t*>(static_cast<char*>(host) + graphs_at),
                              reinterpret_cast<Word*>(words + graphs_at), device + kGraphs);
  return tool;
}

CUresult NvbitTracer::allocate(Context* context, void** host) {
  const size_t host_bytes = request_.ring_bytes + kTailBytes + kGraphBytes;
  CUdeviceptr counters = 0, words = 0;
  CUresult result = cuMemHostAlloc(host, host_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  memset(*host, 0, host_bytes);
  result = cuMemHostGetDevicePointer_v2(&words, *host, 0);
  if (result == CUDA_SUCCESS) result = cuMemAlloc_v2(&counters, kCounterBytes + sizeof(WsTool));
  if (result != CUDA_SUCCESS) return result;
  context->tool = counters + kCounterBytes;
  context->said = tool_of(*host, words, counters, &context->graphs);
  // Not in a stream that waits for others: one of these may be captured into a graph just now.
  CUstream stream = nullptr;
  result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS) result = cuMemsetD8Async(counters, 0, kCounterBytes, stream);
  if (result == CUDA_SUCCESS)
    result = cuMemcpyHtoDAsync_v2(context->tool, &context->said, sizeof context->said, stream);
  if (result == CUDA_SUCCESS) result = cuStreamSynchronize(stream);
  if (stream != nullptr) cuStreamDestroy_v2(stream);
  if (result == CUDA_SUCCESS && request_.mode == WS_DELAY) {
    context->delays = std::make_unique<Delays>(plan_, context->memory);
    result = cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(&context->launches),
                           kDelayedLaunches * sizeof(WsLaunch));
  }
  CUdevice number = 0;
  if (result == CUDA_SUCCESS) result = cuCtxGetDevice(&number);
  context->device = static_cast<uint32_t>(number);
  return result;
}

void NvbitTracer::context_made(CUcontext handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto made = std::make_unique<Context>();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cuThreadExchangeStreamCaptureMode(&mode);
  void* host = nullptr;
  const CUresult result = allocate(made.get(), &host);
  cuThreadExchangeStreamCaptureMode(&mode);
  if (result == CUDA_SUCCESS) {
    auto* const tail = reinterpret_cast<volatile uint64_t*>(static_cast<char*>(host) + request_.ring_bytes);
    std::lock_guard<std::mutex> draining(drain_mutex_);
    made->ring = std::make_unique<EventRing>(static_cast<uint32_t>(rings_.size()),
                                             static_cast<uint64_t*>(host), made->said.mask, tail, zero_);
    rings_.push_back(made->ring.get());
  } else {
    trouble("no memory for the ring of events (CUDA error " + std::to_string(result) + ")", 1);
    made.reset();
  }
  contexts_[handle] = std::move(made);
}

}  // namespace warpsight
