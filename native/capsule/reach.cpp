#include "capsule/reach.h"

#include <algorithm>

#include "capsule/driver.h"
#include "capsule_scan.h"

namespace warpsight {
namespace {

thread_local bool t_loading = false;

constexpr unsigned kThreads = 256, kMostBlocks = 4096;
constexpr size_t kTable = 64u << 10;  // bytes, at least
constexpr unsigned long long kGateNs = 100'000'000;

}  // namespace

void search_host(const Searched& memory, const std::vector<Block>& blocks, std::vector<uint32_t>* found) {
  const auto* words = reinterpret_cast<const uint64_t*>((memory.address + 7) / 8 * 8);
  const auto* end = reinterpret_cast<const uint64_t*>((memory.address + memory.size) / 8 * 8);
  for (; words < end; ++words) {
    const auto after =
        std::upper_bound(blocks.begin(), blocks.end(), *words,
                         [](uint64_t word, const Block& block) { return word < block.address; });
    if (after != blocks.begin() && *words < (after - 1)->end())
      (*found)[static_cast<size_t>(after - 1 - blocks.begin())] = 1;
  }
}

bool Reach::loading() { return t_loading; }

std::string Reach::prepare(CUcontext context) {
  if (searchers_.count(context) != 0) return "";
  CUmodule module = nullptr;
  CUfunction kernel = nullptr, gate = nullptr;
  t_loading = true;
  CUresult result = cu().cuModuleLoadData(&module, kCapsuleScan);
  if (result == CUDA_SUCCESS) result = cu().cuModuleGetFunction(&kernel, module, "ws_scan");
  if (result == CUDA_SUCCESS) result = cu().cuModuleGetFunction(&gate, module, "ws_gate");
  t_loading = false;
  if (result == CUDA_SUCCESS)
    result = cu().cuFuncLoad(kernel);  // not with its first launch: the program is held then
  if (result == CUDA_SUCCESS) result = cu().cuFuncLoad(gate);
  if (result != CUDA_SUCCESS)
    return failure("loading the kernel that searches memory for addresses", result) +
           "; --reach all needs no search";
  Searcher& made = searchers_[context];
  made.kernel = kernel, made.gate = gate;
  if (cu().allocate(&made.table, kTable) == CUDA_SUCCESS) made.bytes = kTable;
  return "";
}

std::string Reach::points_to(CUcontext context, const std::vector<Searched>& memory,
                             const std::vector<Block>& blocks, std::vector<uint32_t>* found) {
  found->assign(blocks.size(), 0);
  if (blocks.empty()) return "";
  const std::string problem = prepare(context);
  if (!problem.empty()) return problem;
  const size_t count = blocks.size();
  std::vector<uint64_t> bounds(2 * count);
  for (size_t i = 0; i < count; ++i) bounds[i] = blocks[i].address, bounds[count + i] = blocks[i].end();
  const size_t bytes = bounds.size() * sizeof bounds[0], all = bytes + count * sizeof(uint32_t);
  Searcher& searcher = searchers_[context];
  CUresult result = CUDA_SUCCESS;
  if (searcher.bytes < all) {
    if (searcher.bytes != 0) cu().free(searcher.table);
    searcher.bytes = 0;
    result = cu().allocate(&searcher.table, all);
    if (result != CUDA_SUCCESS) return failure("allocating room for the search", result);
    searcher.bytes = all;
  }
  const CUdeviceptr table = searcher.table;
  result = cu().host_to_device(table, bounds.data(), bytes, nullptr);
  if (result == CUDA_SUCCESS)
    result = cu().cuMemsetD8Async(table + bytes, 0, count * sizeof(uint32_t), nullptr);
  CUdeviceptr begins = table, ends = table + bytes / 2, flags = table + bytes;
  auto number = static_cast<unsigned>(count);
  for (const Searched& part : memory) {
    if (part.host) continue;
    CUdeviceptr words = (part.address + 7) / 8 * 8;
    const uint64_t end = part.address + part.size;
    unsigned long long length = end > words ? (end - words) / 8 : 0;
    if (length == 0 || result != CUDA_SUCCESS) continue;
    void* arguments[] = {&words, &length, &begins, &ends, &number, &flags};
    const auto grid =
        static_cast<unsigned>(std::min<uint64_t>(kMostBlocks, (length + kThreads - 1) / kThreads));
    result = cu().cuLaunchKernel(searcher.kernel, grid, 1, 1, kThreads, 1, 1, 0, nullptr, arguments, nullptr);
  }
  if (result == CUDA_SUCCESS)
    result = cu().device_to_host(found->data(), flags, count * sizeof(uint32_t), nullptr);
  if (result == CUDA_SUCCESS) result = cu().synchronize();
  for (const Searched& part : memory)
    if (part.host) search_host(part, blocks, found);
  return failure("searching memory for addresses", result);
}

bool Reach::close_gate(CUcontext context, CUstream stream) {
  constexpr unsigned kPinned = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  void* word = nullptr;
  if (!prepare(context).empty()) return false;
  if (opened_ == nullptr) {
    if (cu().cuMemHostAlloc(&word, sizeof *opened_, kPinned) != CUDA_SUCCESS) return false;
    opened_ = static_cast<volatile uint32_t*>(word);
    *opened_ = 0;
  }
  auto opened = reinterpret_cast<CUdeviceptr>(opened_);
  unsigned long long most_ns = kGateNs;
  ++gates_;
  void* arguments[] = {&opened, &gates_, &most_ns};
  return cu().cuLaunchKernel(searchers_[context].gate, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) ==
         CUDA_SUCCESS;
}

void Reach::open_gate() {
  if (opened_ != nullptr) __atomic_store_n(opened_, gates_, __ATOMIC_RELEASE);
}

}  // namespace warpsight
