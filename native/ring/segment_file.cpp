#include "ring/segment_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/descriptors.h"
#include "ring/ring.h"

namespace warpsight {

namespace {

constexpr char kOpenSuffix[] = ".open";

// Writes all of it or returns the error: after a short write, the next write fails with the reason.
int write_all(int fd, const char* bytes, size_t count, off_t offset) {
  while (count) {
    const ssize_t written = pwrite(fd, bytes, count, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    bytes += written;
    count -= static_cast<size_t>(written);
    offset += written;
  }
  return 0;
}

// The number in "data-000012.seg" or "definitions-000012.seg.open"; -1 for other names.
long segment_number(const char* name) {
  const char* digits = nullptr;
  if (strncmp(name, "data-", 5) == 0) digits = name + 5;
  if (strncmp(name, "definitions-", 12) == 0) digits = name + 12;
  if (!digits) return -1;
  char* end = nullptr;
  const long number = strtol(digits, &end, 10);
  const bool ours = end != digits && strncmp(end, ".seg", 4) == 0 && number >= 0 && number < 0x7fffffff;
  return ours ? number : -1;
}

}  // namespace

SegmentFile::SegmentFile(const char* prefix, int directory, uint64_t segment_bytes, uint32_t* next)
    : prefix_(prefix), directory_(directory), segment_bytes_(segment_bytes), next_(next) {}

SegmentFile::~SegmentFile() { close(); }

int SegmentFile::open() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    snprintf(name_, sizeof(name_), "%s-%06u.seg%s", prefix_, *next_, kOpenSuffix);
    fd_ = out_of_the_way(openat(directory_, name_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd_ < 0 && errno != EEXIST) return errno;
    ++*next_;
    if (fd_ < 0) continue;
    ++file_;
    slots_ = 0;
    return 0;
  }
  return EEXIST;
}

int SegmentFile::write(const void* block, uint32_t bytes, Slot* slot) {
  if (fd_ < 0) {
    if (const int error = open()) return error;
  }
  const uint32_t index = in_open_file(*slot) ? slot->index : slots_;
  const off_t offset = static_cast<off_t>(index) * static_cast<off_t>(kBlockBytes);
  const char* rows = static_cast<const char*>(block) + kBlockHeaderBytes;
  if (const int error = write_all(fd_, rows, bytes - kBlockHeaderBytes, offset + off_t{kBlockHeaderBytes}))
    return error;
  if (const int error = write_all(fd_, static_cast<const char*>(block), kBlockHeaderBytes, offset))
    return error;
  if (index == slots_) ++slots_;
  *slot = Slot{file_, index};
  return 0;
}

bool SegmentFile::has_room() {
  const off_t end = static_cast<off_t>(slots_) * static_cast<off_t>(kBlockBytes);
  const bool reserved = fallocate(fd_, FALLOC_FL_KEEP_SIZE, end, static_cast<off_t>(kBlockBytes)) == 0;
  // File systems without reservations fail with a different error, and accept data until they are full.
  return reserved || (errno != ENOSPC && errno != EDQUOT);
}

void SegmentFile::reserve() {
  if (fd_ < 0 && open() == 0 && !has_room()) close();
}

void SegmentFile::renew() {
  if (fd_ >= 0 && slots_ == 0) return;
  SegmentFile next(prefix_, directory_, segment_bytes_, next_);
  next.reserve();
  if (next.fd_ < 0) return;
  close();
  fd_ = next.fd_;
  next.fd_ = -1;
  slots_ = 0;
  ++file_;
  memcpy(name_, next.name_, sizeof(name_));
}

void SegmentFile::take_back(const Slot& slot) {
  if (in_open_file(slot) && slot.index + 1 == slots_) --slots_;
}

void SegmentFile::close() {
  if (fd_ < 0) return;
  char closed[sizeof(name_)];
  snprintf(closed, sizeof(closed), "%.*s", static_cast<int>(strlen(name_) - strlen(kOpenSuffix)), name_);
  // Fails only where the file system cannot hold sparse files; readers take a short last block.
  (void)!ftruncate(fd_, static_cast<off_t>(slots_) * static_cast<off_t>(kBlockBytes));
  ::close(fd_);
  fd_ = -1;
  if (slots_ == 0) {
    unlinkat(directory_, name_, 0);
  } else {
    renameat(directory_, name_, directory_, closed);
  }
}

uint32_t adopt_segments(int directory) {
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy >= 0 ? fdopendir(copy) : nullptr;
  if (!listing) return 0;
  long next = 0;
  while (const dirent* entry = readdir(listing)) {
    const long number = segment_number(entry->d_name);
    if (number >= next) next = number + 1;
    const size_t length = strlen(entry->d_name);
    if (number < 0 || length < 6 || strcmp(entry->d_name + length - 5, kOpenSuffix) != 0) continue;
    char closed[sizeof(entry->d_name)];
    snprintf(closed, sizeof(closed), "%.*s", static_cast<int>(length - 5), entry->d_name);
    renameat(directory, entry->d_name, directory, closed);
  }
  closedir(listing);
  return static_cast<uint32_t>(next);
}

}  // namespace warpsight
