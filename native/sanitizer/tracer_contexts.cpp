// What the tracer keeps on the device for each context: patches, the ring of events, descriptions of
// launches.
#include <string.h>

#include "sanitizer/tracer.h"

namespace warpsight {

namespace {

constexpr size_t kTailBytes = 4096;

}  // namespace

// Waits for what the NULL stream has to do: a copy to the host returns when it is done. Kernels may run in
// streams that do not wait for it, and memory that is not filled yet may hold what another program left.
SanitizerResult Tracer::finish(void* memory) {
  uint64_t word = 0;
  return functions_.copy_to_host(&word, memory, sizeof word, nullptr);
}

bool Tracer::add_patches(CUcontext handle) {
  SanitizerResult result = SANITIZER_ERROR_INVALID_PARAMETER;
  for (const auto& path : request_.patches) {
    result = functions_.add_patches(path.c_str(), handle);
    if (result == SANITIZER_SUCCESS) return true;  // those of another architecture are refused
  }
  trouble("the patches cannot be loaded into this GPU's context", result);
  return false;
}

bool Tracer::allocate(CUcontext handle, Context* context) {
  void *host = nullptr, *launches = nullptr, *counters = nullptr;
  const size_t counter_bytes = (kLaunches + kFirstCounter) * sizeof(uint64_t);
  SanitizerResult result = functions_.alloc_host(handle, &host, request_.ring_bytes + kTailBytes);
  if (result == SANITIZER_SUCCESS) result = functions_.alloc(handle, &launches, kLaunches * sizeof(WsLaunch));
  if (result == SANITIZER_SUCCESS) result = functions_.alloc(handle, &counters, counter_bytes);
  if (result == SANITIZER_SUCCESS) result = functions_.memset(counters, 0, counter_bytes, nullptr);
  void* notes = nullptr;
  constexpr size_t kNoteBytes = WS_NOTES * sizeof(uint64_t);
  if (request_.mode == WS_NOTE && result == SANITIZER_SUCCESS)
    result = functions_.alloc(handle, &notes, kNoteBytes);
  if (notes != nullptr && result == SANITIZER_SUCCESS)
    result = functions_.memset(notes, 0, kNoteBytes, nullptr);
  if (result != SANITIZER_SUCCESS) {
    trouble("no memory for the ring of events", result);
    return false;
  }
  memset(host, 0, request_.ring_bytes + kTailBytes);
  context->words = static_cast<uint64_t*>(host);
  context->tail = reinterpret_cast<uint64_t*>(static_cast<char*>(host) + request_.ring_bytes);
  context->launches = static_cast<WsLaunch*>(launches);
  context->counters = static_cast<char*>(counters);
  context->notes = static_cast<unsigned long long*>(notes);
  if (request_.mode == WS_PROBE) context->probes = std::make_shared<Probes>(request_, functions_, handle);
  if (request_.mode == WS_DELAY) context->delays = std::make_unique<Delays>(plan_, context->memory);
  if (request_.mode == WS_CHECK) {
    context->races = std::make_unique<RaceChecks>(functions_, handle);
    result = context->races->start(request_.shadow_bytes);
    void* places = nullptr;
    constexpr size_t kPlaceBytes = WS_PLACES * sizeof(WsPlace);
    if (result == SANITIZER_SUCCESS) result = functions_.alloc(handle, &places, kPlaceBytes);
    if (result == SANITIZER_SUCCESS) result = functions_.memset(places, 0, kPlaceBytes, nullptr);
    context->places = static_cast<WsPlace*>(places);
    if (result != SANITIZER_SUCCESS) {
      trouble("no memory for race detection on the device", result);
      return false;
    }
  }
  result = finish(counters);
  if (result != SANITIZER_SUCCESS) {
    trouble("the ring of events cannot be prepared", result);
    return false;
  }
  std::lock_guard<std::mutex> lock(drain_mutex_);
  context->ring =
      std::make_unique<EventRing>(static_cast<uint32_t>(rings_.size()), context->words,
                                  request_.ring_bytes / sizeof(uint64_t) - 1, context->tail, zero_);
  rings_.push_back(context->ring.get());
  return true;
}

// The context with its patches and ring; nullptr where that failed, which is reported once.
Tracer::Context* Tracer::context_of(CUcontext handle) {
  const auto known = contexts_.find(handle);
  if (known != contexts_.end()) return known->second.get();
  auto made = std::make_unique<Context>(functions_, handle);
  if (!add_patches(handle) || !allocate(handle, made.get())) made.reset();
  return (contexts_[handle] = std::move(made)).get();
}

}  // namespace warpsight
