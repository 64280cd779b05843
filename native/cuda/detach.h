// Detaching from CUPTI permanently: cuptiFinalize may only be called at the exit of a CUDA call, so we make
// one.
#pragma once

#include <cupti.h>

#include <atomic>

namespace warpsight {

extern std::atomic<bool> g_detach_wanted;  // set by detach() for the length of the call it makes
inline bool detach_wanted() { return g_detach_wanted.load(std::memory_order_relaxed); }

// From the callback while a detach is wanted: finalises at the exit of the call that detach() made.
void detach_at(const CUpti_CallbackData& call);

// Makes a harmless driver call with its callback enabled and finalises CUPTI inside. False when no callback
// came or CUPTI refused; the subscriber is then still there.
bool detach(CUpti_SubscriberHandle subscriber);

}  // namespace warpsight
