#include "capsule/memory.h"

#include <cuda.h>

#include <cstring>

#include "capsule/output.h"

namespace warpsight {

#define MADE(name, pointer, bytes, what)                                               \
  case CUPTI_DRIVER_TRACE_CBID_##name: {                                               \
    const auto& p = *static_cast<const name##_params*>(params);                        \
    block.address = reinterpret_cast<uint64_t>(reinterpret_cast<void*>(*(p.pointer))); \
    block.size = bytes;                                                                \
    block.kind = what;                                                                 \
    break;                                                                             \
  }

void Memory::on_exit(uint32_t cbid, const void* params, const CUpti_CallbackData& call) {
  if (const uint64_t freed = freed_by(cbid, params)) {
    const bool unmapped = cbid == CUPTI_DRIVER_TRACE_CBID_cuMemUnmap;  // of several pieces at once
    return remove(freed, unmapped ? static_cast<const cuMemUnmap_params*>(params)->size : 1);
  }
  Block block;
  block.call = call.functionName;
  block.context = call.context;
  if (cbid == CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2) cbid = CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc;
  switch (cbid) {
    MADE(cuMemAlloc_v2, dptr, p.bytesize, "malloc")
    MADE(cuMemAllocPitch_v2, dptr, *p.pPitch * p.Height, "malloc")
    MADE(cuMemAllocAsync, dptr, p.bytesize, "pool")
    MADE(cuMemAllocAsync_ptsz, dptr, p.bytesize, "pool")
    MADE(cuMemAllocFromPoolAsync, dptr, p.bytesize, "pool")
    MADE(cuMemAllocFromPoolAsync_ptsz, dptr, p.bytesize, "pool")
    MADE(cuMemAllocManaged, dptr, p.bytesize, "managed")
    MADE(cuMemHostAlloc, pp, p.bytesize, "host")
    MADE(cuMemAllocHost_v2, pp, p.bytesize, "host")
    MADE(cuIpcOpenMemHandle_v2, pdptr, 1, "ipc")
    case CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2: {
      const auto& p = *static_cast<const cuMemHostRegister_v2_params*>(params);
      block.address = reinterpret_cast<uint64_t>(p.p);
      block.size = p.bytesize;
      block.kind = "host";
      break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemMap: {
      const auto& p = *static_cast<const cuMemMap_params*>(params);
      block.address = p.ptr;
      block.size = p.size;
      block.kind = "vmm";
      break;
    }
    default:
      return;
  }
  if (block.address == 0 || block.size == 0) return;
  if (strcmp(block.kind, "pool") != 0) block.stack = python_stack();  // pools are for many calls
  add(std::move(block));
}

#undef MADE

uint64_t Memory::freed_by(uint32_t cbid, const void* params) {
  switch (cbid) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2:
      return static_cast<const cuMemFree_v2_params*>(params)->dptr;
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz:
      return static_cast<const cuMemFreeAsync_params*>(params)->dptr;
    case CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost:
      return reinterpret_cast<uint64_t>(static_cast<const cuMemFreeHost_params*>(params)->p);
    case CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister:
      return reinterpret_cast<uint64_t>(static_cast<const cuMemHostUnregister_params*>(params)->p);
    case CUPTI_DRIVER_TRACE_CBID_cuMemUnmap:
      return static_cast<const cuMemUnmap_params*>(params)->ptr;
    case CUPTI_DRIVER_TRACE_CBID_cuIpcCloseMemHandle:
      return static_cast<const cuIpcCloseMemHandle_params*>(params)->dptr;
    default:
      return 0;
  }
}

namespace {

uint64_t bytes_of_gpu(const Block& block) { return strcmp(block.kind, "host") == 0 ? 0 : block.size; }

}  // namespace

void Memory::add(Block block) {
  block.time = time_ns();
  std::lock_guard<std::mutex> lock(mutex_);
  block.sequence = ++calls_;
  Block& place = blocks_[block.address];
  bytes_ += bytes_of_gpu(block) - bytes_of_gpu(place);
  place = block;
  if (block.address < low_.load()) low_.store(block.address);
  if (block.end() > high_.load()) high_.store(block.end());
}

void Memory::remove(uint64_t address, uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto first = blocks_.lower_bound(address), end = blocks_.lower_bound(address + size);
  for (auto one = first; one != end; ++one) bytes_ -= bytes_of_gpu(one->second);
  blocks_.erase(first, end);
}

bool Memory::find(uint64_t address, Block* block) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return false;
  --found;
  if (address >= found->second.end()) return false;
  *block = found->second;
  return true;
}

std::vector<Block> Memory::reached_with(const Block& block) const {
  std::vector<Block> found = {block};
  if (strcmp(block.kind, "vmm") != 0) return found;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto here = blocks_.find(block.address);
  if (here == blocks_.end()) return found;
  for (auto at = here; at != blocks_.begin();) {
    const auto next = at--;
    if (at->second.end() != next->first || strcmp(at->second.kind, "vmm") != 0) break;
    found.push_back(at->second);
  }
  for (auto at = here, next = std::next(here); next != blocks_.end(); at = next++) {
    if (at->second.end() != next->first || strcmp(next->second.kind, "vmm") != 0) break;
    found.push_back(next->second);
  }
  return found;
}

std::vector<Block> Memory::all() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Block> found;
  for (const auto& entry : blocks_) found.push_back(entry.second);
  return found;
}

}  // namespace warpsight
