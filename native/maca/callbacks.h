// MCPTI's callback: one row per call of the program, written at the call's return, with the stack taken
// there.
//
// Of the callback's data the site, the name, the result, the kernel's name, the context's number and the
// correlation id are read, where CUPTI has them. The arguments are not: nobody outside says how MACA lays
// them out, so grid, block and sizes come from the records of the GPU's work.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace warpsight {

void CUPTIAPI on_maca_callback(void* userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                               const void* data);

// Calls that threads are in belong to the recording before.
void begin_maca_callback_session();

// Whether MCPTI's own records of waits are on, so that calls need not report them.
void set_waits_recorded(bool recorded);

}  // namespace warpsight
