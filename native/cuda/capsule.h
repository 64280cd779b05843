// Work cut out of a program that is recorded too (`warpsight record --capsule`): CUPTI has one subscriber, so
// the library that cuts out gets its callbacks through ours.
#pragma once

#include <cupti.h>

namespace warpsight {

bool capsule_wanted();
// Loads that library, which enables the callbacks it needs; once ours are enabled. Later calls do nothing.
void start_capsule(CUpti_SubscriberHandle subscriber);
// In place of on_callback: each callback goes to those who enabled it.
void CUPTIAPI on_shared_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data);

}  // namespace warpsight
