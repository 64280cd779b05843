// The driver calls that CUPTI reports to the recorder: as few as possible, since each costs the program about
// a microsecond.
#pragma once

#include <cupti.h>

namespace warpsight {

// Each contains those before it.
enum class Followed : int {
  nothing,
  memory,  // calls that create and free memory, modules and graphs, and captures
  copies,  // and fills
  writes,  // launches
  work     // and all that orders them
};

// Callbacks are enabled and disabled with it; null: no more, since the program ends and CUPTI with it.
void follow_with(decltype(&cuptiEnableCallback) enable, CUpti_SubscriberHandle subscriber);
// Follows these calls from now on, of all threads; does nothing when they are followed. Callable within
// callbacks.
CUptiResult follow(Followed calls);

}  // namespace warpsight
