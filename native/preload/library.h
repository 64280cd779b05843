// libwarpsight as the preloaded library uses it: the recorder, loaded into the same process at the first
// wrapped call.
#pragma once

#include <cstdint>

#include "layout.h"

namespace warpsight {

// The functions of libwarpsight.
struct Library {
  int (*recording)();
  uint64_t (*now)();
  uint32_t (*capture_stack)();
  uint32_t (*intern)(const char*, uint64_t);
  uint32_t (*intern_shape)(const Shape*);
  int (*write_row)(uint16_t, const void*, uint32_t);
};

// nullptr while nothing records in this process.
const Library* recording_library();

// The dynamic linker's own dlsym.
void* real_dlsym(void* handle, const char* name);

// A driver function that is not wrapped, looked up once; nullptr if the driver does not have it.
void* driver_function(const char* name);

}  // namespace warpsight
