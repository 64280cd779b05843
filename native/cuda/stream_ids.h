// CUPTI's id of the stream that a call names by its handle.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "cuda/functions.h"

namespace warpsight {

constexpr uint32_t kNoStreamId = ~0u;

inline uint32_t stream_id(const CUpti_CallbackData& call, uint64_t handle) {
  uint32_t id = kNoStreamId;
  if (cupti().cuptiGetStreamId == nullptr || call.context == nullptr) return id;
  const auto stream = reinterpret_cast<CUstream>(handle);
  return cupti().cuptiGetStreamId(call.context, stream, &id) == CUPTI_SUCCESS ? id : kNoStreamId;
}

}  // namespace warpsight
