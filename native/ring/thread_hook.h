// Lets the runtime learn of threads when they write for the first time.
#pragma once

namespace warpsight {

// Called once on each thread, before its first row (not of a definition kind) is written.
void set_thread_hook(void (*hook)());

}  // namespace warpsight
