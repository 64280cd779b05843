// Where libcupti is: the program's own, the NVIDIA wheels next to it, a CUDA toolkit, the loader's path.
#pragma once

#include <string>

namespace warpsight {

struct FoundCupti {
  void* handle = nullptr;
  std::string path;
  std::string why;  // if handle is null: what was tried and what to do
};

// The file a loaded library came from, symbolic links resolved; "" when unknown.
std::string loaded_file(void* handle);

// CUDA major version of the loaded driver (13 for 580 and later, 12 for 525 and later); 0 if unknown. Read
// from the library's file name first, because calling the driver is not safe while it initializes.
int driver_cuda_major(void* libcuda);

// Loads the first libcupti whose major version does not exceed `driver_major` (0: no limit).
FoundCupti find_cupti(int driver_major);

}  // namespace warpsight
