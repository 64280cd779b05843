// The recorder for MetaX GPUs as the rest of the library sees it.
#pragma once

namespace warpsight {

// Registers the recorder with the runtime once MACA's runtime (libmcruntime.so) is loaded in this process.
// The runtime calls it when recording begins and on every tick.
void register_maca_backend(bool beginning);

}  // namespace warpsight
