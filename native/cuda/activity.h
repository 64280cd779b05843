// What to request from CUPTI: its attributes, activity kinds and callbacks.
#pragma once

#include <cupti.h>

namespace warpsight {

// Clock, thread ids, buffers and their attributes, and our buffer callbacks; before any kind is enabled.
void set_up_activity();

// Enables the kinds of settings().trace (and GRAPH_TRACE when `graph_level`); a loss row names those CUPTI
// refuses.
void enable_kinds(bool graph_level);
void disable_kinds();

// Enables or disables the callbacks of settings().api and of resources.
void enable_callbacks(CUpti_SubscriberHandle subscriber, bool enable);

// Enables or disables everything recorded while waiting for one of the program's own ranges: its calls, and
// definitions that its records will refer to.
void enable_range_callbacks(CUpti_SubscriberHandle subscriber, bool enable);

}  // namespace warpsight
