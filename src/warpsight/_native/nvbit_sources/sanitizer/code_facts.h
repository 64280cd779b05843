// What race detection must know of instructions before they run: the Sanitizer has no patches for fences, nor
// for arrivals at named barriers without waiting, so they are found in the code between instructions that
// have.
//
// Bits as nvdisasm prints the instructions for sm_75 to sm_120: the operation in bits 0-8, its form in 9-11;
// the scope of accesses in bits 77-80.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpsight {

// The facts of a kernel and of functions that it may call, as the device reads them (race_layout.h).
struct CodeFacts {
  std::vector<uint32_t> words;  // by instruction, function after function
  std::vector<uint32_t> first;  // of each function
  std::vector<uint32_t> site_facts;
  std::vector<uint32_t> site_offsets;    // of each site in its function, bytes
  std::vector<uint32_t> site_functions;  // and the function
  uint32_t one_way = 0;                  // bit n: there are arrivals at named barrier n that do not wait
  bool has_mbarriers = false;
  bool has_copies = false;  // by the async proxies
};

// `codes`: whole instructions of each function, the kernel's first. `architecture`: 90 for sm_90.
CodeFacts facts_of_code(const std::vector<std::string_view>& codes, uint32_t architecture);

// Whether code copies by tensor maps: the Sanitizer does not show these, and their mbarriers cannot be
// followed.
bool copies_by_tensor_map(std::string_view code);

}  // namespace warpsight
