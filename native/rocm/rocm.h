// The ROCm recorder as the rest of the library sees it. Never run on AMD's hardware yet: written from
// rocprofiler-sdk's documentation and tested against a stand-in.
#pragma once

namespace warpsight {

// For a recording that starts inside a running program: makes us a tool of rocprofiler-sdk when that is still
// possible and this process was asked to record ROCm; says so when it is not. Nothing but the beginning
// matters.
void register_rocm_backend(bool beginning);

}  // namespace warpsight
