// The ROCm recorder as the rest of the library sees it. Never run on AMD's hardware yet: written from
// rocprofiler-sdk's documentation and tested against a stand-in.
#pragma once

namespace warpsight {

// For a recording that begins inside a running program: reports a loss if ROCm should be recorded and
// rocprofiler-sdk no longer accepts tools. Does nothing unless `beginning`.
void register_rocm_backend(bool beginning);

}  // namespace warpsight
