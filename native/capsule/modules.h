// The modules that the program has loaded, and the kernels that it launches.
#pragma once

#include <cupti.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capsule/cubin.h"
#include "capsule/output.h"
#include "capsule/request.h"

namespace warpsight {

// A kernel, as a handle that is launched names it. Made once and never destroyed.
struct Kernel {
  std::string name;               // mangled
  bool wanted = false;            // by the request
  CUfunction function = nullptr;  // null if the driver does not provide it
  CUkernel kernel = nullptr;      // where the handle was one of a library
  CUmodule module = nullptr;
  int loaded = -1;                                // number of the image that resolving it loaded; -1: none
  std::vector<std::pair<size_t, size_t>> params;  // offset and size of each
  size_t bytes = 0;                               // of the packed parameters

  // The parameters of a launch, packed; false if the launch provides too few bytes.
  bool pack(void* const* params, void* const* extra, std::vector<char>* packed) const;
};

class Modules {
 public:
  Modules(const CapsuleRequest& request, Output* output) : request_(request), output_(*output) {}

  // CUPTI's resource callbacks.
  void loaded(CUcontext context, const CUpti_ModuleResourceData& module);
  void unloading(CUcontext context, const CUpti_ModuleResourceData& module);
  // A call that loads a module begins and has returned it.
  void load_begins(const void* image = nullptr);
  void load_ended(CUmodule module);
  // Modules loaded from now on are not written: nothing more will be cut out.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  // The kernel behind a handle; `name` is CUPTI's, possibly null. Null if it cannot be determined.
  const Kernel* kernel(CUfunction handle, const char* name);
  // The number of the image that holds the kernel; -1, with `why`, if it cannot be determined.
  int image_of(const Kernel& kernel, CUcontext context, std::string* why);
  // Where an image is in the output.
  std::pair<uint64_t, uint64_t> extent(int image) const;
  // The same for the PTX it was compiled from at load time, if any; without a size.
  std::pair<uint64_t, uint64_t> ptx(int image) const;
  const std::vector<CubinVariable>& variables(int image) const;
  // Names of the kernels that were launched.
  std::vector<std::string> names() const;

 private:
  struct Image {
    CUcontext context;
    uint32_t id;  // CUPTI's
    uint64_t offset, size;
    bool live;
    std::vector<size_t> kernels;  // sorted hashes of their names
    std::pair<uint64_t, uint64_t> ptx;
    std::vector<CubinVariable> variables;  // found when it was loaded: later the program would be held for it
  };
  Kernel* resolve(CUfunction handle, const char* name);
  std::string bytes_of(const Image& image) const;
  std::vector<int> candidates(const Kernel& kernel, CUcontext context) const;

  const CapsuleRequest& request_;
  Output& output_;
  std::atomic<bool> stopped_{false};              // makes callbacks ignore what is loaded
  std::atomic<uint32_t> generation_{1};           // raised when handles may name another kernel
  mutable std::mutex mutex_;                      // protects what follows
  std::deque<Image> images_;                      // never moves them
  std::unordered_multimap<size_t, int> holders_;  // images by hash of the kernels in them
  std::map<CUmodule, int> handles_;
  std::unordered_map<CUfunction, Kernel*> kernels_;
  std::map<std::string, uint64_t> names_;  // of kernels launched
};

}  // namespace warpsight
