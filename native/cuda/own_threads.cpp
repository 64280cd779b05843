#include "cuda/own_threads.h"

#include "cuda/functions.h"
#include "cuda/machine.h"

namespace warpsight {

void relax_capture_mode() {
  thread_local bool relaxed = false;
  if (relaxed || !context_seen() || driver().exchange_capture_mode == nullptr) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  relaxed = driver().exchange_capture_mode(&mode) == CUDA_SUCCESS;
}

}  // namespace warpsight
