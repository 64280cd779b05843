// Host stacks of the calling thread, interned: the values of a launch row's column `stack`.
#pragma once

#include <cstdint>

namespace warpsight {

// Once, when recording starts (any thread): finds the interpreter when there is one, checks its frame layout,
// and turns Python stacks off with a loss row rather than guess. May be called again after Python was loaded
// late.
void prepare_stacks();

// The stack of the calling thread as configured by settings().stacks; 0 if it is empty. Never takes the GIL,
// never allocates after warm-up, never throws. `skip_native`: the number of innermost native frames that
// belong to us.
uint32_t capture_stack(int skip_native = 1);

struct ThreadCache;
// The same, for callers that know where the calling thread's cache (t_stack_cache) is.
uint32_t capture_stack_with(ThreadCache* cache, int skip_native);

}  // namespace warpsight
