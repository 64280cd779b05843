#include "replay/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace warpsight::replay {
namespace {

constexpr uint64_t kReserved = 32ull << 20;  // the driver reserves multiples of it (seen with driver 580)
constexpr uint64_t kRoomForKernels = 1ull << 30;  // device memory that a copy of the contents leaves free

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

bool hold_one(const Mapping& mapping) {
  void* const at = mmap(pointer(mapping.address), mapping.size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED) return false;
  if (at == pointer(mapping.address)) return true;
  munmap(at, mapping.size);  // a kernel before 4.17 takes the address as a hint
  return false;
}

}  // namespace

uint64_t host_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

bool Memory::hold() {
  for (const Mapping& mapping : script_.mappings)
    if (!hold_one(mapping)) return report_->taken(mapping.address, "another mapping");
  return true;
}

void Memory::release() {
  for (const Mapping& mapping : script_.mappings)
    if (mapping.kind == kDevice) munmap(pointer(mapping.address), mapping.size);
}

bool Memory::reserve() {
  for (size_t i = 0; i < script_.mappings.count;) {
    if (script_.mappings[i].kind != kDevice) {
      ++i;
      continue;
    }
    const uint64_t begin = script_.mappings[i].address / kReserved * kReserved;
    uint64_t end = begin;
    for (; i < script_.mappings.count && script_.mappings[i].kind == kDevice; ++i) {
      const Mapping& mapping = script_.mappings[i];
      if (end != begin && mapping.address / kReserved * kReserved > end) break;
      end = std::max(end, (mapping.address + mapping.size + kReserved - 1) / kReserved * kReserved);
    }
    if (!reserve_one(begin, end - begin)) later_.push_back({begin, end - begin, kDevice, 0});
  }
  return true;
}

bool Memory::reserve_one(uint64_t address, uint64_t size) {
  CUdeviceptr at = 0;
  if (driver_.reserve(&at, size, 0, address, 0) != CUDA_SUCCESS) return false;
  if (at == address) return true;
  driver_.unreserve(at, size);
  return false;
}

bool Memory::reserve_rest() {
  for (const Mapping& range : later_)
    if (!reserve_one(range.address, range.size)) return report_->taken(range.address, "the driver");
  return true;
}

bool Memory::map(CUdevice device) {
  if (!reserve_rest()) return false;
  uint64_t pinned = 0;
  for (const Mapping& mapping : script_.mappings)
    if (mapping.kind == kPinned) pinned += mapping.size;
  if (pinned > host_memory()) {
    report_->line("failed -1 memory %llu bytes of pinned memory are more than this machine has",
                  static_cast<unsigned long long>(pinned));
    return false;
  }
  for (const Mapping& mapping : script_.mappings)
    if (mapping.kind == kDevice ? !map_device(mapping, device) : !map_pinned(mapping)) return false;
  for (const Piece& piece : script_.pieces) piece_bytes_ += piece.size;
  return true;
}

bool Memory::map_device(const Mapping& mapping, CUdevice device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CUmemGenericAllocationHandle handle = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUdeviceptr at = mapping.address;
  return report_->check(driver_, driver_.create(&handle, mapping.size, &properties, 0),
                        "memory of the GPU") &&
         report_->check(driver_, driver_.map(at, mapping.size, 0, handle, 0), "mapping memory") &&
         report_->check(driver_, driver_.set_access(at, mapping.size, &access, 1), "access to memory");
}

bool Memory::map_pinned(const Mapping& mapping) {
  void* const at = pointer(mapping.address);
  if (mmap(at, mapping.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
    return report_->taken(mapping.address, strerror(errno));
  CUdeviceptr device = 0;
  if (!report_->check(driver_, driver_.register_host(at, mapping.size, CU_MEMHOSTREGISTER_DEVICEMAP),
                      "registering host memory") ||
      !report_->check(driver_, driver_.host_pointer(&device, at, 0), "the GPU's address of host memory"))
    return false;
  return device == mapping.address || report_->taken(mapping.address, "the driver");
}

bool Memory::restore(int run) {
  if (copy_ == 0) {
    if (!upload(poison(run))) return false;
    if (!script_.has(kCheckGaps)) keep_copy();
    return true;
  }
  uint64_t at = 0;
  for (const Mapping& mapping : script_.mappings) {
    if (!report_->check(driver_, driver_.copy_later(mapping.address, copy_ + at, mapping.size, nullptr),
                        "restoring contents"))
      return false;
    at += mapping.size;
  }
  return report_->check(driver_, driver_.context_wait(), "restoring contents");
}

bool Memory::upload(unsigned char poison) {
  for (const Mapping& mapping : script_.mappings) {
    if (!report_->check(driver_, driver_.fill(mapping.address, poison, mapping.size), "filling memory"))
      return false;
  }
  for (const Piece& piece : script_.pieces) {
    const CUresult result = piece.before == kNone
                                ? driver_.fill(piece.address, 0, piece.size)
                                : driver_.to_device(piece.address, script_.data + piece.before, piece.size);
    if (!report_->check(driver_, result, "uploading contents")) return false;
  }
  return report_->check(driver_, driver_.context_wait(), "uploading contents");
}

void Memory::keep_copy() {
  uint64_t all = 0;
  for (const Mapping& mapping : script_.mappings) all += mapping.size;
  size_t free = 0, total = 0;
  if (all == 0 || driver_.memory_info(&free, &total) != CUDA_SUCCESS || free < all + kRoomForKernels) return;
  if (driver_.allocate(&copy_, all) != CUDA_SUCCESS) {
    copy_ = 0;
    return;
  }
  uint64_t at = 0;
  bool kept = true;
  for (const Mapping& mapping : script_.mappings) {
    kept = kept && driver_.copy_later(copy_ + at, mapping.address, mapping.size, nullptr) == CUDA_SUCCESS;
    at += mapping.size;
  }
  if (!kept || driver_.context_wait() != CUDA_SUCCESS) copy_ = 0;  // contents are uploaded each time
}

bool Memory::download(unsigned char* contents) {
  for (size_t i = 0; i < script_.pieces.count;) {
    size_t end = i + 1;  // neighbours come in one copy
    uint64_t size = script_.pieces[i].size;
    while (end < script_.pieces.count &&
           script_.pieces[end].address == script_.pieces[end - 1].address + script_.pieces[end - 1].size)
      size += script_.pieces[end++].size;
    if (!report_->check(driver_, driver_.to_host(contents, script_.pieces[i].address, size),
                        "downloading contents"))
      return false;
    contents += size;
    i = end;
  }
  return true;
}

bool Memory::check_gaps(int run) {
  const unsigned char poison = this->poison(run);
  size_t next = 0;  // pieces and mappings are sorted by address
  for (const Mapping& mapping : script_.mappings) {
    uint64_t at = mapping.address;
    const uint64_t end = mapping.address + mapping.size;
    while (at < end) {
      while (next < script_.pieces.count && script_.pieces[next].address + script_.pieces[next].size <= at)
        ++next;
      const bool found = next < script_.pieces.count && script_.pieces[next].address < end;
      const uint64_t stop = found ? std::max(at, script_.pieces[next].address) : end;
      if (stop > at) {
        scratch_.resize(stop - at);
        if (!report_->check(driver_, driver_.to_host(scratch_.data(), at, stop - at), "reading gaps"))
          return false;
        const auto bad =
            std::find_if(scratch_.begin(), scratch_.end(), [=](unsigned char b) { return b != poison; });
        if (bad != scratch_.end())
          report_->line("outside %d 0x%llx", run,
                        static_cast<unsigned long long>(at + (bad - scratch_.begin())));
      }
      at = found ? script_.pieces[next].address + script_.pieces[next].size : end;
    }
  }
  return true;
}

}  // namespace warpsight::replay
