// The recorder for MetaX GPUs as the rest of the library sees it.
#pragma once

// Weak: a build without CUPTI's headers, whose record layouts MCPTI shares, has no such recorder.
namespace warpsight {

// Registers the recorder with the runtime once MACA's runtime (libmcruntime.so) is loaded in this process;
// true from then on. The runtime calls it when recording begins and on every tick until it answers true.
__attribute__((weak)) bool register_maca_backend();

}  // namespace warpsight
