// One sequence of segment files in a directory: definitions-NNNNNN.seg or data-NNNNNN.seg.
#pragma once

#include <cstdint>

namespace warpsight {

// Where a block is: `file` counts the files of this writer, so that a slot in a closed file is known to be
// gone.
struct Slot {
  uint32_t file = 0;  // 0 = nowhere
  uint32_t index = 0;
};

class SegmentFile {
 public:
  // `directory` is a descriptor that outlives this object; `next` is the number of the next file, shared by
  // all.
  SegmentFile(const char* prefix, int directory, uint64_t segment_bytes, uint32_t* next);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  // Writes `bytes` bytes of a block at `slot` if that is in the open file, otherwise at a new slot, and sets
  // `slot` to it. Returns 0, or the errno of the write. If the write fails or the process is killed during
  // it, the file stays as before.
  int write(const void* block, uint32_t bytes, Slot* slot);
  bool in_open_file(const Slot& slot) const { return slot.file == file_ && fd_ >= 0; }
  // Gives the slot that was written last back, to be overwritten.
  void take_back(const Slot& slot);
  // Reserves the next slot; false when the disk is full.
  bool has_room();
  bool is_full() const { return uint64_t{slots_} * 65536 >= segment_bytes_; }
  // Begins a file with disk space for its first block; does nothing if there is no space.
  void reserve();
  // Goes on in another such file; stays in the present one while that is empty, or there is no room.
  void renew();
  // Makes the file's length a whole number of blocks and takes the suffix `.open` off its name.
  void close();

 private:
  int open();

  const char* prefix_;
  int directory_;
  uint64_t segment_bytes_;
  uint32_t* next_;
  int fd_ = -1;
  uint32_t file_ = 0;
  uint32_t slots_ = 0;
  char name_[48] = {};
};

// The lowest number that no segment file in `directory` has; files a dead drainer left open are closed on the
// way.
uint32_t adopt_segments(int directory);

}  // namespace warpsight
