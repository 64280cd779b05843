// MCPTI's callback: one row per call of the program, written when the call returns, with the stack taken
// there. From the callback's data, the site, the name, the result, the kernel's name, the context's number
// and the correlation id are read, at CUPTI's offsets. The arguments are not: MACA does not document their
// layout, so grid, block and sizes come from the records of the GPU's work.
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
