// Visiting the rings of an arena: note, copy definitions, copy events.
#include "ring/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "ring/arena.h"
#include "ring/crc32.h"
#include "ring/descriptors.h"

namespace warpsight {

namespace {

constexpr uint64_t kFixedBytes = kArenaHeaderBytes + kRingCapacity * kRingDescriptorBytes;
constexpr uint32_t kOpenState = 1, kClosedState = 2, kFreeState = 0;
// BlockHeader.flags; see layout.py.
constexpr uint32_t kSealed = 1, kGapCounted = 2;
constexpr uint32_t kWholeBlock = static_cast<uint32_t>(kBlockPayloadBytes);

// Descriptor of `path`, made with mode 0700 where it does not exist (its parent must); -1 with errno set.
int open_directory(const char* path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return -1;
  return out_of_the_way(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Maps an arena of any process; nullptr with errno set unless its header is ours and its length is fixed: by
// seals, or because the file is this user's own.
char* map_arena(int fd, uint64_t* bytes) {
  struct stat status;
  if (fstat(fd, &status) != 0) return nullptr;
  const int seals = fcntl(fd, F_GET_SEALS);
  *bytes = static_cast<uint64_t>(status.st_size);
  errno = EINVAL;
  const bool sealed = seals >= 0 && (seals & F_SEAL_SHRINK);
  const bool own_file = seals == F_SEAL_SEAL && status.st_uid == geteuid();  // as files in a tmpfs are
  if (!sealed && !own_file) return nullptr;
  if (*bytes < kFixedBytes + kBlockBytes) return nullptr;
  void* map = mmap(nullptr, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (map == MAP_FAILED) return nullptr;
  const ArenaHeader* header = static_cast<const ArenaHeader*>(map);
  if (load_acquire(&header->magic) == kArenaMagic && header->version == kLayoutVersion)
    return static_cast<char*>(map);
  munmap(map, *bytes);
  errno = EINVAL;
  return nullptr;
}

}  // namespace

Drainer* Drainer::open(int arena_fd, const char* directory, uint64_t segment_bytes) {
  const int directory_fd = open_directory(directory);
  if (directory_fd < 0) return nullptr;
  uint64_t bytes = 0;
  char* map = map_arena(arena_fd, &bytes);
  Drainer* drainer = map ? new (std::nothrow) Drainer(map, bytes, directory_fd, segment_bytes) : nullptr;
  if (!drainer) {
    const int error = errno;
    if (map) munmap(map, bytes);
    ::close(directory_fd);
    errno = error;
  }
  return drainer;
}

Drainer::Drainer(char* map, uint64_t bytes, int directory, uint64_t segment_bytes)
    : map_(map),
      bytes_(bytes),
      capacity_(static_cast<uint32_t>((bytes - kFixedBytes) / kBlockBytes)),
      directory_(directory),
      next_segment_(adopt_segments(directory)),
      definitions_("definitions", directory, segment_bytes, &next_segment_),
      data_("data", directory, segment_bytes, &next_segment_),
      losses_("data", directory, segment_bytes, &next_segment_),
      own_strings_(String::kKind, 0),
      own_losses_(Loss::kKind, sizeof(Loss)),
      rings_(kRingCapacity),
      buffer_(kBlockBytes) {
  const uint32_t stored = load_acquire(&header()->next_segment);
  if (stored > next_segment_ && stored < 100000000) next_segment_ = stored;
  // Numbers no ring has and no other drainer of this arena had: each begins at a segment number of its own.
  const uint32_t writer = 0x80000000u | next_segment_ << 1;
  own_strings_.identify(*header(), writer);
  own_losses_.identify(*header(), writer + 1);
  losses_.reserve();  // report losses even if the disk is full
  add_sentences();
  __atomic_store_n(&header()->drainer, static_cast<uint32_t>(getpid()), __ATOMIC_RELEASE);
  __atomic_store_n(&header()->heartbeat, monotonic_ns(), __ATOMIC_RELEASE);
}

Drainer::~Drainer() {
  definitions_.close();
  data_.close();
  losses_.close();
  munmap(map_, bytes_);
  ::close(directory_);
}

RingDescriptor* Drainer::descriptor(uint32_t index) const {
  return reinterpret_cast<RingDescriptor*>(map_ + kArenaHeaderBytes) + index;
}

const char* Drainer::block_address(const Ring& ring, uint64_t sequence) const {
  return map_ + kFixedBytes + (ring.first_block + sequence % ring.block_count) * kBlockBytes;
}

// Reads the owner of a descriptor; false if there is none or its numbers are invalid.
bool Drainer::recognise(uint32_t index, Ring* ring) {
  const RingDescriptor* shared = descriptor(index);
  ring->state = load_acquire(&shared->state);
  if (ring->state != kOpenState && ring->state != kClosedState) return false;
  if (shared->writer == ring->writer && ring->writer) return ring->block_count != 0;
  *ring = Ring{};
  ring->state = load_acquire(&shared->state);
  ring->writer = shared->writer;
  ring->kind = shared->kind;
  ring->row_bytes = shared->row_bytes;
  const uint32_t first = shared->first_block;
  const uint32_t count = shared->block_count;
  const bool sound = ring->writer && ring->writer < 0x80000000u && count && count <= capacity_ &&
                     first <= capacity_ - count && ring->row_bytes % 8 == 0;
  if (!sound) {
    ++damaged_;
    return false;
  }
  ring->first_block = first;
  ring->block_count = count;
  return true;
}

void Drainer::note(uint32_t index) {
  Ring* ring = &rings_[index];
  ring->noted = recognise(index, ring);
  if (!ring->noted) return;
  ring->produced = load_acquire(&descriptor(index)->produced);
  ring->committed = 0;
  if (ring->produced < ring->block_count && ring->produced >= load_acquire(&descriptor(index)->ready)) return;
  const BlockHeader* open = reinterpret_cast<const BlockHeader*>(block_address(*ring, ring->produced));
  const bool begun = load_acquire(&open->sequence) == ring->produced && open->writer == ring->writer;
  ring->committed = begun ? load_acquire(&open->committed) : 0;
}

void Drainer::learn_count() {
  const uint32_t count = std::min<uint32_t>(load_acquire(&header()->ring_count), kRingCapacity);
  known_ = std::max(known_, count);
}

// Definitions refer to definitions of lower kinds only (stack to frame to string), so noting the kinds in
// descending order gives a set without dangling references.
void Drainer::note_definitions() {
  std::vector<std::pair<uint16_t, uint32_t>> found;
  for (uint32_t i = 0; i < known_; ++i) {
    const uint16_t kind = load_acquire(&descriptor(i)->kind);
    if (is_definition(kind)) found.emplace_back(kind, i);
  }
  std::sort(found.rbegin(), found.rend());
  for (const auto& definition : found) note(definition.second);
}

// Notes how far every ring has got: events first, so that all they refer to is in the definitions noted after
// them.
void Drainer::note_rings() {
  ArenaHeader* shared = header();
  learn_count();
  for (uint32_t i = 0; i < known_; ++i) {
    rings_[i].noted = rings_[i].stuck = false;
    if (!is_definition(load_acquire(&descriptor(i)->kind))) note(i);
  }
  for (int attempt = 0; attempt < 3; ++attempt) {  // again if a ring appeared meanwhile
    const uint32_t claims = load_acquire(&shared->claims);
    learn_count();
    note_definitions();
    if (load_acquire(&shared->claims) == claims) return;
  }
}

// Copies header and at most `limit` bytes of rows of a block into the buffer; false when it is not the block
// expected (overwritten by a producer that drops its oldest, or damaged).
bool Drainer::load_block(const Ring& ring, uint64_t sequence, uint32_t limit, bool sealed) {
  const char* source = block_address(ring, sequence);
  const BlockHeader* shared = reinterpret_cast<const BlockHeader*>(source);
  BlockHeader* own = reinterpret_cast<BlockHeader*>(buffer_.data());
  if (load_acquire(&shared->sequence) != sequence || shared->writer != ring.writer) return false;
  uint32_t committed = std::min(load_acquire(&shared->committed), limit);
  if (committed > kWholeBlock) return false;
  if (ring.row_bytes) committed -= committed % ring.row_bytes;
  memcpy(buffer_.data(), source, kBlockHeaderBytes + committed);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (load_acquire(&shared->sequence) != sequence) return false;
  own->magic = kBlockMagic;
  own->version = kLayoutVersion;
  own->kind = ring.kind;
  own->arena = header()->arena;
  own->sequence = sequence;
  own->writer = ring.writer;
  own->row_bytes = ring.row_bytes;
  own->committed = committed;
  own->flags = (sealed ? kSealed : 0) | (sequence > ring.next_sequence ? kGapCounted : 0);
  own->crc = crc32(crc32(0, own, 60), own + 1, committed);
  return true;
}

Drainer::Outcome Drainer::drain_block(Ring* ring, uint64_t sequence, uint32_t limit, bool sealed) {
  if (!load_block(*ring, sequence, limit, sealed)) {
    if (sealed) skip_damaged(*ring, sequence);
    return Outcome::nothing;
  }
  const uint32_t committed = reinterpret_cast<BlockHeader*>(buffer_.data())->committed;
  SegmentFile* file = file_of(*ring);
  const bool here_before = ring->slot.file && ring->slot_sequence == sequence;
  const bool rewrite = here_before && file->in_open_file(ring->slot);
  if (committed == 0 || (here_before && committed == ring->slot_bytes && !(rewrite && sealed)))
    return Outcome::nothing;
  Slot slot = rewrite ? ring->slot : Slot{};
  if (const int error =
          file->write(buffer_.data(), static_cast<uint32_t>(kBlockHeaderBytes) + committed, &slot)) {
    visit_error_ = last_error_ = error;
    return Outcome::failed;
  }
  if (rewrite) ring->partial_bytes = 0;
  ring->slot = slot;
  ring->slot_sequence = sequence;
  ring->slot_bytes = committed;
  ring->next_sequence = sealed ? sequence + 1 : sequence;
  ++visit_blocks_;
  ++blocks_;
  bytes_written_ += kBlockHeaderBytes + committed;
  return Outcome::written;
}

void Drainer::skip_damaged(const Ring& ring, uint64_t sequence) {
  const uint64_t drained = load_acquire(&descriptor(static_cast<uint32_t>(&ring - rings_.data()))->drained);
  if (drained == sequence) ++damaged_;  // else its producer dropped and counted it
}

// Takes a block for ours; false when its producer dropped it first (and counted its rows as lost).
bool Drainer::advance(uint32_t index, uint64_t sequence) {
  return __atomic_compare_exchange_n(&descriptor(index)->drained, &sequence, sequence + 1, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

// A producer that drops a block counts all of its rows, also those that a visit copied while it was open.
void Drainer::settle_partial(Ring* ring, uint64_t drained) {
  if (!ring->partial_bytes || drained <= ring->partial_sequence) return;
  if (ring->row_bytes) ring->surplus += ring->partial_bytes / ring->row_bytes;
  ring->partial_bytes = 0;
}

// A block that cannot be written waits in its ring for the disk to recover, until the ring is half full.
bool Drainer::give_up(const Ring& ring, uint64_t drained) const {
  if (patient_) return false;
  return finishing_ || ring.produced - drained > ring.block_count / 2;
}

// Counts the block in the buffer before it is taken: a drainer that comes after one that died in between
// finds that it was counted.
void Drainer::count_unwritten(uint32_t index, uint64_t sequence) {
  RingDescriptor* shared = descriptor(index);
  if (shared->unwritten_block == sequence + 1) return;
  Ring* ring = &rings_[index];
  const uint32_t committed = reinterpret_cast<BlockHeader*>(buffer_.data())->committed;
  const bool partly = ring->slot.file && ring->slot_sequence == sequence;  // written by an earlier visit
  const uint32_t bytes = committed - (partly ? std::min(ring->slot_bytes, committed) : 0);
  const uint64_t rows = ring->row_bytes ? bytes / ring->row_bytes : 1;
  if (shared->unwritten == ring->unwritten_told) ring->unwritten_since = visit_time_;
  shared->unwritten_block = sequence + 1;
  __atomic_store_n(&shared->unwritten, shared->unwritten + rows, __ATOMIC_RELEASE);
  ++unwritten_blocks_;
  unwritten_rows_ += rows;
}

void Drainer::drain_ring(uint32_t index, bool open_too) {
  Ring* ring = &rings_[index];
  if (!ring->noted) return;
  uint64_t drained = load_acquire(&descriptor(index)->drained);
  settle_partial(ring, drained);
  if (drained > ring->produced) return;  // its producer dropped everything we noted
  if (ring->produced - drained > ring->block_count) {
    ++damaged_;
    ring->partial_bytes = 0;
    __atomic_store_n(&descriptor(index)->drained, ring->produced, __ATOMIC_RELEASE);
    drained = ring->produced;
  }
  while (drained < ring->produced) {
    const bool counted = descriptor(index)->unwritten_block == drained + 1;
    const Outcome outcome = counted ? Outcome::nothing : drain_block(ring, drained, kWholeBlock, true);
    if (outcome == Outcome::failed) {
      ring->stuck = !give_up(*ring, drained);
      if (ring->stuck) return;
      count_unwritten(index, drained);
    }
    const bool ours = advance(index, drained);
    if (ours && drained == ring->partial_sequence) ring->partial_bytes = 0;
    if (!ours && outcome == Outcome::written) file_of(*ring)->take_back(ring->slot);
    const uint64_t now = load_acquire(&descriptor(index)->drained);
    drained = now > drained ? now : drained + 1;
    settle_partial(ring, drained);
  }
  if (!open_too || drained != ring->produced || ring->committed == 0) return;
  if (descriptor(index)->unwritten_block == drained + 1) return;
  const Outcome outcome = drain_block(ring, ring->produced, ring->committed, false);
  if (outcome == Outcome::failed && finishing_) count_unwritten(index, drained);
  if (outcome == Outcome::written) {
    ring->partial_sequence = ring->produced;
    ring->partial_bytes = ring->slot_bytes;
  }
}

void Drainer::free_if_done(uint32_t index) {
  Ring* ring = &rings_[index];
  RingDescriptor* shared = descriptor(index);
  if (ring->state != kClosedState || !ring->noted || ring->stuck) return;
  if (load_acquire(&shared->drained) < load_acquire(&shared->produced)) return;
  tell_ring_loss(index, true);
  if (load_acquire(&shared->lost) != shared->lost_reported) return;
  if (shared->unwritten != shared->unwritten_reported) return;
  uint32_t expected = kClosedState;
  ring->noted = false;  // from here on it is another thread's
  __atomic_compare_exchange_n(&shared->state, &expected, kFreeState, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_RELAXED);
}

int Drainer::poll(bool checkpoint) {
  visit_time_ = monotonic_ns();
  visit_blocks_ = visit_error_ = 0;
  ArenaHeader* shared = header();
  __atomic_store_n(&shared->drainer, static_cast<uint32_t>(getpid()), __ATOMIC_RELEASE);
  __atomic_store_n(&shared->heartbeat, visit_time_, __ATOMIC_RELEASE);
  note_rings();
  const uint32_t count = known_;
  bool events = checkpoint;
  for (uint32_t i = 0; i < count && !events; ++i) {
    events = rings_[i].noted && !is_definition(rings_[i].kind) &&
             rings_[i].produced > load_acquire(&descriptor(i)->drained);
  }
  bool complete = true;
  for (uint32_t i = 0; i < count; ++i) {
    if (rings_[i].noted && is_definition(rings_[i].kind)) drain_ring(i, events);
    complete = complete && !rings_[i].stuck;
  }
  for (uint32_t i = 0; i < count && (complete || finishing_); ++i) {
    if (rings_[i].noted && !is_definition(rings_[i].kind)) drain_ring(i, checkpoint);
  }
  for (uint32_t i = 0; i < count; ++i) free_if_done(i);
  tell_losses(finishing_);
  write_own();
  if (data_.is_full()) rotate();
  if (definitions_.is_full()) definitions_.close();
  __atomic_store_n(&shared->next_segment, next_segment_, __ATOMIC_RELAXED);
  return visit_error_ ? -visit_error_ : visit_blocks_;
}

void Drainer::rotate() {
  definitions_.close();  // first: a reader that sees a closed data segment finds its definitions closed too
  data_.close();
  losses_.renew();
  __atomic_store_n(&header()->next_segment, next_segment_, __ATOMIC_RELAXED);
}

int Drainer::finish() {
  finishing_ = true;
  const int result = poll(true);
  rotate();
  losses_.close();
  uint32_t self = static_cast<uint32_t>(getpid());
  __atomic_compare_exchange_n(&header()->drainer, &self, 0u, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  return result;
}

int Drainer::adopt() {
  patient_ = true;
  int result = poll(true);
  if (result >= 0) result = finish();
  return std::min(result, 0);
}

uint64_t Drainer::statistic(int which) const {
  const uint64_t values[] = {blocks_,           bytes_written_,
                             unwritten_blocks_, load_acquire(&header()->ring_count),
                             unwritten_rows_,   static_cast<uint64_t>(last_error_),
                             lost_rows_,        damaged_};
  return which >= 0 && which < 8 ? values[which] : 0;
}

}  // namespace warpsight
