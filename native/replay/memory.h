// The program's memory at the addresses it had.
#pragma once
#include <vector>

#include "replay/loaded_script.h"
#include "replay/report.h"

namespace warpsight::replay {

// Bytes of memory that this machine has.
uint64_t host_memory();

class Memory {
 public:
  Memory(const Driver& driver, const Script& script, Report* report)
      : driver_(driver), script_(script), report_(report) {}

  // The addresses must be reserved between cuInit and the context: the driver checks at cuInit what is in
  // use, and the context leaves only a part of the address space alone (seen with driver 580). Keeps the
  // addresses free while libcuda and its dependencies are loaded.
  bool hold();
  // Ends that; called before cuInit.
  void release();
  // Reserves the addresses of device memory; called after cuInit and before there is a context. Addresses
  // that the driver refuses then are tried again once there is one.
  bool reserve();
  // Maps memory there; the context is current.
  bool map(CUdevice device);
  // Contents before the first operation, and poison elsewhere. The first call keeps a copy on the device
  // where it fits.
  bool restore(int run = 0);
  // The contents of all pieces, one after another.
  bool download(unsigned char* contents);
  // Checks that memory not covered by any piece still holds the poison; false only on driver errors.
  bool check_gaps(int run);
  uint64_t piece_bytes() const { return piece_bytes_; }

 private:
  bool reserve_one(uint64_t address, uint64_t size);
  bool reserve_rest();
  bool map_device(const Mapping& mapping, CUdevice device);
  bool map_pinned(const Mapping& mapping);
  bool upload(unsigned char poison);
  // Runs of a check have two kinds of poison in turn, so that an output that depends on it differs between
  // runs.
  unsigned char poison(int run) const {
    return static_cast<unsigned char>(script_.has(kCheckGaps) && run % 2 != 0 ? ~script_.header->poison
                                                                              : script_.header->poison);
  }
  void keep_copy();
  const Driver& driver_;
  const Script& script_;
  Report* const report_;
  uint64_t piece_bytes_ = 0;
  std::vector<Mapping> later_;  // not reserved yet
  CUdeviceptr copy_ = 0;
  std::vector<unsigned char> scratch_;
};

}  // namespace warpsight::replay
