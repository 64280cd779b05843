#include "sanitizer/race_checks.h"

#include <algorithm>

namespace warpsight {
namespace {

constexpr uint32_t kRaces = 1 << 12;
constexpr uint64_t kPageEntries = WS_PAGE_ENTRIES;
constexpr uint64_t kBlockEntries = 2ull * WS_BLOCK_WORDS;
constexpr uint64_t kFewestPages = 16;
constexpr uint32_t kRowsBits = 22;
constexpr uint32_t kHopper = 90;

// 32 less the logarithm of a power of two.
uint32_t shift_of(uint64_t places) { return 32u - static_cast<uint32_t>(__builtin_ctzll(places)); }

}  // namespace

// Memory of the device, zeroed in the order of a stream.
template <class Item>
SanitizerResult RaceChecks::allocate(Item** memory, uint64_t count, Sanitizer_StreamHandle stream) {
  void* made = nullptr;
  SanitizerResult result = functions_.alloc(context_, &made, count * sizeof(Item));
  if (result == SANITIZER_SUCCESS) result = functions_.memset(made, 0, count * sizeof(Item), stream);
  if (result == SANITIZER_SUCCESS) *memory = static_cast<Item*>(made);
  return result;
}

SanitizerResult RaceChecks::start(uint64_t bytes) {
  uint64_t pages = kFewestPages;
  while (2 * pages * kPageEntries * sizeof(uint64_t) <= bytes + bytes / 8) pages *= 2;
  SanitizerResult result = allocate(&shared_.shadow, pages * kPageEntries, nullptr);
  while (result != SANITIZER_SUCCESS && pages > kFewestPages) {
    pages /= 2;
    result = allocate(&shared_.shadow, pages * kPageEntries, nullptr);
  }
  pages_ = pages;
  shared_.page_shift = shift_of(pages);
  const auto also = [&](auto** memory, uint64_t count) {
    if (result == SANITIZER_SUCCESS) result = allocate(memory, count, nullptr);
  };
  also(&shared_.pages, pages);
  also(&shared_.block_shadow, kBlockEntries);
  also(&shared_.rows, WS_ROWS);
  also(&shared_.slots, WS_SLOTS);
  also(&shared_.mbarriers, static_cast<uint64_t>(WS_MBARRIER_SLOTS) * WS_MBARRIERS);
  also(&shared_.seen, 2ull * WS_SEEN);
  also(&shared_.unwatched, WS_CAUSES);
  also(&shared_.clock, 1);
  also(&races_, kRaces);
  return result;
}

void RaceChecks::read(CUmodule module, const std::string& name, std::vector<PlacedCode> codes,
                      uint32_t architecture) {
  Kernel kernel;
  kernel.number = ++kernel_count_;
  kernel.architecture = architecture;
  if (codes.size() > WS_RACE_FUNCTIONS) codes.resize(WS_RACE_FUNCTIONS);
  std::vector<std::string_view> views(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) views[i] = codes[i].code;
  kernel.facts = facts_of_code(views, architecture);
  for (size_t i = 0; i < codes.size(); ++i)
    kernel.functions.push_back(
        {codes[i].pc, static_cast<unsigned int>(codes[i].code.size()), kernel.facts.first[i]});
  kernel.site_pcs.push_back(0);
  for (size_t site = 1; site < kernel.facts.site_offsets.size(); ++site)
    kernel.site_pcs.push_back(
        static_cast<uint32_t>(codes[kernel.facts.site_functions[site]].pc + kernel.facts.site_offsets[site]));
  kernels_[{module, name}] = std::move(kernel);
}

void RaceChecks::read_compiled(CUmodule module, const std::string& name, const CompiledKernel& compiled,
                               uint32_t architecture) {
  Kernel kernel;
  kernel.number = ++kernel_count_;
  kernel.architecture = architecture;
  kernel.facts.site_facts = compiled.site_facts;
  kernel.facts.one_way = compiled.one_way;
  kernel.facts.has_copies = compiled.copies;
  for (uint32_t site = 0; site < compiled.site_facts.size(); ++site) kernel.site_pcs.push_back(site);
  kernels_[{module, name}] = std::move(kernel);
}

void RaceChecks::forget(CUmodule module) {
  for (auto known = kernels_.begin(); known != kernels_.end();)
    known = known->first.first == module ? kernels_.erase(known) : std::next(known);
}

SanitizerResult RaceChecks::upload(Kernel* kernel, Sanitizer_StreamHandle stream) {
  if (!kernel->streams.insert(stream).second) return SANITIZER_SUCCESS;
  const uint64_t words = kernel->facts.words.size(), sites = WS_SITES;
  SanitizerResult result = SANITIZER_SUCCESS;
  if (kernel->device == nullptr) {
    result = allocate(&kernel->device, words + 2 * sites, stream);
    kernel->site_pcs.resize(sites, 0);
    kernel->facts.site_facts.resize(sites, 0);
  }
  const auto copy = [&](uint64_t at, std::vector<uint32_t>& from) {
    if (result == SANITIZER_SUCCESS && !from.empty())
      result =
          functions_.copy_to_device(kernel->device + at, from.data(), from.size() * sizeof(uint32_t), stream);
  };
  copy(0, kernel->facts.words);
  copy(words, kernel->site_pcs);
  copy(words + sites, kernel->facts.site_facts);
  return result;
}

// Assigns rows and block numbers to the launch. When these start over, everything noted under them is
// dropped.
SanitizerResult RaceChecks::advance(const Sanitizer_LaunchData& data, Sanitizer_StreamHandle stream,
                                    WsRace* race) {
  const uint64_t threads = 1ull * data.blockDim_x * data.blockDim_y * data.blockDim_z;
  const uint64_t blocks = 1ull * data.gridDim_x * data.gridDim_y * data.gridDim_z;
  race->warps = static_cast<unsigned int>((threads + 31) / 32);
  const uint64_t watched = std::min<uint64_t>(blocks * race->warps, WS_ROWS);
  race->watched = static_cast<unsigned int>(watched);
  SanitizerResult result = SANITIZER_SUCCESS;
  const auto clear = [&](auto* memory, uint64_t count) {
    if (result == SANITIZER_SUCCESS) result = functions_.memset(memory, 0, count * sizeof(*memory), stream);
  };
  if ((rows_ + watched) >> (kRowsBits + 2) != rows_ >> (kRowsBits + 2)) {
    clear(shared_.shadow, pages_ * kPageEntries);
    clear(shared_.block_shadow, kBlockEntries);
  }
  if (blocks_ + blocks >= ~0u) {
    clear(shared_.slots, WS_SLOTS);
    clear(shared_.mbarriers, static_cast<uint64_t>(WS_MBARRIER_SLOTS) * WS_MBARRIERS);
    blocks_ = 0;
  }
  race->first_row = static_cast<unsigned int>(rows_);
  race->block_base = static_cast<unsigned int>(blocks_);
  rows_ += watched;
  blocks_ += blocks;
  return result;
}

SanitizerResult RaceChecks::describe(CUmodule module, const std::string& name,
                                     const Sanitizer_LaunchData& data, Sanitizer_StreamHandle stream,
                                     const WsRace** device) {
  Kernel& kernel = kernels_[{module, name}];
  WsRace race = shared_;
  SanitizerResult result = upload(&kernel, stream);
  if (result == SANITIZER_SUCCESS) result = advance(data, stream, &race);
  if (result != SANITIZER_SUCCESS) return result;
  race.tag = ++launches_;
  race.kernel = kernel.number;
  race.facts = kernel.device;
  race.site_pcs = kernel.device + kernel.facts.words.size();
  race.site_facts = race.site_pcs + WS_SITES;
  std::copy(kernel.functions.begin(), kernel.functions.end(), race.functions);
  race.function_count = static_cast<unsigned int>(kernel.functions.size());
  if (!kernel.functions.empty()) {
    race.pc = static_cast<unsigned int>(kernel.functions[0].pc);
    race.bytes = kernel.functions[0].bytes;
  }
  race.has_mbarriers = kernel.facts.has_mbarriers ? 1 : 0;
  race.phases = kernel.architecture >= kHopper ? 1 : 0;
  race.one_way = kernel.facts.one_way;
  race.copies = kernel.facts.has_copies ? 1 : 0;
  const unsigned int grid[] = {data.gridDim_x, data.gridDim_y, data.gridDim_z};
  const unsigned int cluster[] = {data.clusterDim_x, data.clusterDim_y, data.clusterDim_z};
  for (int i = 0; i < 3; ++i) {
    race.grid[i] = grid[i];
    race.cluster[i] = std::max(cluster[i], 1u);
  }
  race.alone = race.cluster[0] * race.cluster[1] * race.cluster[2] == 1 ? 1 : 0;
  WsRace* const place = races_ + launches_ % kRaces;
  *device = place;
  return functions_.copy_to_device(place, &race, sizeof race, stream);
}

}  // namespace warpsight
