// Our own threads must not end a stream capture of the program.
#pragma once

namespace warpsight {

// Once per thread of ours, after the program has a context: puts it into relaxed capture mode, in which no
// CUDA call it makes invalidates a capture on another thread.
void relax_capture_mode();

}  // namespace warpsight
