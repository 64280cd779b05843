// Modules that are replaced, as the program loads them, by code with race checks compiled into it. The
// launcher makes that code (sass/races/compiled) when asked through a socket; modules that it cannot make
// stay as they are.
#pragma once

#include <cuda.h>
#include <sanitizer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace warpsight {

// What the launcher says of a kernel with checks.
struct CompiledKernel {
  uint32_t one_way = 0;  // bit n: there are arrivals at named barrier n that do not wait
  bool copies = false;   // there is cp.async
  std::vector<uint32_t> site_facts;
};

struct CompiledModule {
  std::string image;  // its code; the driver may read it as long as the process lives
  std::map<std::string, CompiledKernel> kernels;
  std::string sites;  // JSON, for the event file
};

class CompiledModules {
 public:
  // `socket`: where the launcher listens; `architecture`: of the GPUs, 90 for sm_90.
  CompiledModules(std::string socket, uint32_t architecture)
      : socket_(std::move(socket)), architecture_(architecture) {}

  // The functions of the driver that load code, by the Sanitizer's numbers.
  static std::vector<Sanitizer_CallbackId> loads();
  // Such a function begins: where the image has a replacement, it loads that.
  void replace(Sanitizer_CallbackId id, const Sanitizer_CallbackData& call);
  // What is known of loaded code; null where it is the program's own.
  const CompiledModule* find(std::string_view cubin);

 private:
  const CompiledModule* made_for(std::string_view image);
  bool ask(std::string_view image, uint32_t number, CompiledModule* made) const;

  const std::string socket_;
  const uint32_t architecture_;
  std::mutex mutex_;                                             // protects what follows
  std::map<uint32_t, std::unique_ptr<CompiledModule>> modules_;  // by number
  std::map<const void*, uint32_t> known_;  // numbers by the address of the program's image; 0: it stays
  uint32_t asked_ = 0;
};

// The address of a module's variable; false where it has none.
bool find_variable(CUmodule module, const char* name, CUdeviceptr* address);

}  // namespace warpsight
