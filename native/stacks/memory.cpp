#include "stacks/memory.h"

#include <sys/uio.h>

#include <algorithm>

namespace warpsight {

bool RemoteMemory::copy_now(uint64_t address, void* to, size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

const uint8_t* RemoteMemory::cached(uint64_t address) const {
  for (size_t i = used_; i-- > 0;) {
    if (addresses_[i] == address) return bytes_.data() + i * kPage;
  }
  return nullptr;
}

const uint8_t* RemoteMemory::page(uint64_t address) {
  if (const uint8_t* known = cached(address)) return known;
  if (used_ == kMostPages) used_ = 0;
  if (bytes_.size() < (used_ + 1) * kPage) bytes_.resize((used_ + 1) * kPage);
  if (!copy_now(address, room(used_), kPage)) return nullptr;
  addresses_[used_] = address;
  return room(used_++);
}

bool RemoteMemory::copy(uint64_t address, void* to, size_t bytes) {
  uint8_t* out = static_cast<uint8_t*>(to);
  while (bytes) {
    const uint64_t start = address & ~uint64_t{kPage - 1};
    const uint8_t* from = page(start);
    if (!from) return false;
    const size_t part = std::min<size_t>(bytes, start + kPage - address);
    memcpy(out, from + (address - start), part);
    out += part;
    address += part;
    bytes -= part;
  }
  return true;
}

void RemoteMemory::fetch(const uint64_t* addresses, size_t count, size_t bytes) {
  constexpr size_t kBatch = 128;
  iovec remote[kBatch];
  size_t wanted = 0;
  const auto want = [&](uint64_t address) {
    const uint64_t start = address & ~uint64_t{kPage - 1};
    if (wanted == kBatch || used_ + wanted == kMostPages || cached(start)) return;
    for (size_t i = 0; i < wanted; ++i) {
      if (reinterpret_cast<uint64_t>(remote[i].iov_base) == start) return;
    }
    remote[wanted++] = {reinterpret_cast<void*>(start), kPage};
  };
  for (size_t i = 0; i < count; ++i) {
    if (!addresses[i]) continue;
    want(addresses[i]);
    want(addresses[i] + bytes - 1);
  }
  if (!wanted) return;
  if (bytes_.size() < (used_ + wanted) * kPage) bytes_.resize((used_ + wanted) * kPage);
  const iovec local = {room(used_), wanted * kPage};
  const ssize_t got = process_vm_readv(pid_, &local, 1, remote, wanted, 0);
  // The call stops at the first unreadable page; what follows is left to single reads.
  for (ssize_t i = 0; i < got / static_cast<ssize_t>(kPage); ++i) {
    addresses_[used_++] = reinterpret_cast<uint64_t>(remote[i].iov_base);
  }
}

}  // namespace warpsight
