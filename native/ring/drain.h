// The consumer's side: copies blocks of one arena, its own process's or another's, to segment files.
//
// Nothing in the arena is believed: the other process may have scribbled over it. Every number that leads to
// an address is checked against the length of the mapping, which the seals keep.
#pragma once

#include <cstdint>
#include <vector>

#include "ring/ring.h"
#include "ring/segment_file.h"

namespace warpsight {

// The arena is shared with writers, so every number that changes is read so.
template <class T>
T load_acquire(const T* value) {
  return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

// Blocks that the drainer writes itself: its loss rows and the strings they use.
class OwnBlocks {
 public:
  OwnBlocks(uint16_t kind, uint32_t row_bytes);
  // Appends a row (for strings, with its text); begins another block when this one is full and written. False
  // if that block could not be written: the row is not taken.
  bool append(const void* row, uint32_t row_bytes, std::string_view text, SegmentFile* file);
  // Writes new data; the errno of the write, 0 once everything is written.
  int write(SegmentFile* file);
  // The last appended row for which `matches` holds, to be changed; nullptr if there is none in this block.
  template <class Row, class Predicate>
  Row* last(Predicate matches) {
    Row* rows = reinterpret_cast<Row*>(bytes_.data() + kBlockHeaderBytes);
    for (uint32_t i = header()->committed / sizeof(Row); i-- > 0;) {
      if (!matches(rows[i])) continue;
      dirty_ = true;
      return &rows[i];
    }
    return nullptr;
  }
  void identify(const ArenaHeader& header, uint32_t writer);

 private:
  BlockHeader* header() { return reinterpret_cast<BlockHeader*>(bytes_.data()); }

  std::vector<char> bytes_;
  Slot slot_;
  bool dirty_ = false;
};

class Drainer {
 public:
  // Takes no ownership of `arena_fd`. nullptr with errno set when it is not a sound arena or `directory`
  // cannot be used.
  static Drainer* open(int arena_fd, const char* directory, uint64_t segment_bytes);
  ~Drainer();
  Drainer(const Drainer&) = delete;
  Drainer& operator=(const Drainer&) = delete;

  // One visit. Blocks written, or -errno when something could not be written.
  int poll(bool checkpoint);
  void rotate();
  // The last visit: everything committed, open blocks too.
  int finish();
  // The same for an arena without writers: data that cannot be written stays in it. 0 or -errno.
  int adopt();
  uint64_t statistic(int which) const;

 private:
  // What we know about a descriptor's present owner; `writer` 0 = nothing yet.
  struct Ring {
    uint32_t writer = 0;
    uint16_t kind = 0;
    uint16_t row_bytes = 0;
    uint32_t first_block = 0;
    uint32_t block_count = 0;
    Slot slot;  // where the block `slot_sequence` was written while it was open
    uint64_t slot_sequence = 0;
    uint32_t slot_bytes = 0;        // committed bytes written there
    uint64_t next_sequence = 0;     // of the block after the written ones
    uint64_t partial_sequence = 0;  // a block that was written while it was open and is not ours yet
    uint32_t partial_bytes = 0;     // committed bytes of it, 0: none
    uint64_t surplus = 0;           // rows that its producer counts as lost although they were written
    uint64_t lost_told = 0;         // of `lost`, in rows that may not be on disk yet
    uint64_t lost_told_at = 0;      // when its last Loss row was written
    uint64_t lost_until = 0;        // lost_last of that row
    uint64_t unwritten_told = 0;    // of `unwritten`
    uint64_t unwritten_since = 0;   // when the first unreported row of `unwritten` was given up
    uint64_t produced = 0;          // the note of this visit
    uint32_t committed = 0;         // of block `produced`
    uint32_t state = 0;
    bool noted = false;
    bool stuck = false;  // a write failed; its blocks wait in the ring
  };
  enum class Outcome { written, nothing, failed };

  Drainer(char* map, uint64_t bytes, int directory, uint64_t segment_bytes);
  ArenaHeader* header() const { return reinterpret_cast<ArenaHeader*>(map_); }
  RingDescriptor* descriptor(uint32_t index) const;
  const char* block_address(const Ring& ring, uint64_t sequence) const;

  void note_rings();
  void learn_count();
  void note_definitions();
  void note(uint32_t index);
  bool recognise(uint32_t index, Ring* ring);
  void drain_ring(uint32_t index, bool open_too);
  Outcome drain_block(Ring* ring, uint64_t sequence, uint32_t limit, bool sealed);
  bool load_block(const Ring& ring, uint64_t sequence, uint32_t limit, bool sealed);
  void skip_damaged(const Ring& ring, uint64_t sequence);
  bool advance(uint32_t index, uint64_t sequence);
  void settle_partial(Ring* ring, uint64_t drained);
  bool give_up(const Ring& ring, uint64_t drained) const;
  void count_unwritten(uint32_t index, uint64_t sequence);
  void free_if_done(uint32_t index);
  SegmentFile* file_of(const Ring& ring) { return is_definition(ring.kind) ? &definitions_ : &data_; }

  void tell_losses(bool all);
  void tell_ring_loss(uint32_t index, bool now);
  void tell_unwritten(uint32_t index);
  void add_sentences();
  void tell(const Loss& loss);
  void note_told();
  void write_own();

  char* map_;
  uint64_t bytes_;
  uint32_t capacity_;
  int directory_;
  uint32_t next_segment_;
  SegmentFile definitions_;
  SegmentFile data_;
  SegmentFile losses_;  // has room for a block reserved
  OwnBlocks own_strings_;
  OwnBlocks own_losses_;
  std::vector<Ring> rings_;
  uint32_t known_ = 0;  // descriptors handed out so far, as far as we have seen
  std::vector<char> buffer_;
  uint64_t visit_time_ = 0;
  bool finishing_ = false;
  bool patient_ = false;  // nothing is given up
  int visit_blocks_ = 0;
  int visit_error_ = 0;
  uint64_t blocks_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t unwritten_blocks_ = 0;
  uint64_t unwritten_rows_ = 0;
  uint64_t damaged_ = 0;
  uint64_t damaged_told_ = 0;
  uint64_t no_ring_told_ = 0;
  uint64_t lost_rows_ = 0;
  int last_error_ = 0;
};

}  // namespace warpsight
