// Waits, events and allocations derived from the calls themselves. CUPTI's own records of them slow down
// every launch (the event kind alone by 200 ns, measured on an H200), so they must be requested; the calls
// provide nearly as much.
#pragma once

#include <cupti.h>

#include "cuda/api_rules.h"
#include "ring/ring.h"

namespace warpsight {

// Which tables CUPTI's records fill, so that calls need not.
struct RecordedByCupti {
  bool sync, event, memory, unused;  // four bytes: read as one atomic
};
void set_recorded_by_cupti(RecordedByCupti recorded);

// Writes the Sync, Event or Memory row of a finished call, when its group has one. `call` is at its exit.
void write_derived(const ApiRule& rule, const CUpti_CallbackData& call, const Api& row);

}  // namespace warpsight
