#include "replay/driver.h"

#include <dlfcn.h>

namespace warpsight::replay {

bool Driver::load(const char** missing) {
  *missing = "libcuda.so.1";
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return false;
#define WARPSIGHT_FIND(member, name, ...)                            \
  member = reinterpret_cast<decltype(member)>(dlsym(library, name)); \
  if (member == nullptr) return *missing = name, false;
  WARPSIGHT_DRIVER_FUNCTIONS(WARPSIGHT_FIND)
#undef WARPSIGHT_FIND
  return true;
}

}  // namespace warpsight::replay
