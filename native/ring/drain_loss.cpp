// The drainer's reports of losses, as rows of its own.
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ring/arena.h"
#include "ring/crc32.h"
#include "ring/drain.h"

namespace warpsight {

namespace {

// Loss.severity and Loss.counter; see record_kinds.py.
constexpr uint32_t kDataLost = 2;
constexpr uint32_t kRingLost = 1, kNoRing = 2, kRingUnwritten = 3;
constexpr uint64_t kTellEveryNs = 1000000000;  // a ring that goes on losing gets one Loss row a second

// The drainer's sentences: string ids below kFirstStringId, which no process interns.
enum Sentence : uint32_t {
  kNone,
  kRing,
  kDrainer,
  kRingFull,
  kArenaFull,
  kNoSpace,
  kTooLarge,
  kIoError,
  kWriteError,
  kDamaged
};
constexpr const char* kSentences[] = {
    "",
    "ring",
    "drainer",
    "the ring was full: rows came faster than they were drained",
    "the arena was full: there was no ring for another thread",
    "blocks could not be written: no space left on the device",
    "blocks could not be written: the file size limit was reached",
    "blocks could not be written: input/output error",
    "blocks could not be written",
    "a damaged block or ring was skipped",
};
static_assert(sizeof(kSentences) / sizeof(kSentences[0]) == kDamaged + 1, "one sentence each");
static_assert(kDamaged < kFirstStringId, "ids of the process's own strings");

uint32_t sentence_of_error(int error) {
  if (error == ENOSPC || error == EDQUOT) return kNoSpace;
  if (error == EFBIG) return kTooLarge;
  return error == EIO ? kIoError : kWriteError;
}

}  // namespace

OwnBlocks::OwnBlocks(uint16_t kind, uint32_t row_bytes) : bytes_(kBlockBytes) {
  BlockHeader* block = header();
  *block = BlockHeader{};
  block->magic = kBlockMagic;
  block->version = kLayoutVersion;
  block->kind = kind;
  block->row_bytes = row_bytes;
}

void OwnBlocks::identify(const ArenaHeader& arena, uint32_t writer) {
  header()->pid = arena.pid;
  header()->arena = arena.arena;
  header()->thread = static_cast<uint32_t>(syscall(SYS_gettid));
  header()->writer = writer;
}

bool OwnBlocks::append(const void* row, uint32_t row_bytes, std::string_view text, SegmentFile* file) {
  const uint32_t bytes = row_bytes + ((static_cast<uint32_t>(text.size()) + 7) & ~7u);
  BlockHeader* block = header();
  if (block->committed + bytes > kBlockPayloadBytes) {
    block->flags = 1;
    dirty_ = true;
    if (write(file) != 0 || !file->has_room()) {
      block->flags = 0;
      return false;
    }
    ++block->sequence;
    block->committed = block->flags = 0;
    slot_ = Slot{};
  }
  char* at = bytes_.data() + kBlockHeaderBytes + block->committed;
  memset(at, 0, bytes);
  memcpy(at, row, row_bytes);
  if (!text.empty()) memcpy(at + row_bytes, text.data(), text.size());
  block->committed += bytes;
  dirty_ = true;
  return true;
}

int OwnBlocks::write(SegmentFile* file) {
  BlockHeader* block = header();
  if (!dirty_ || block->committed == 0) return 0;
  block->crc = crc32(crc32(0, block, 60), block + 1, block->committed);
  const int error = file->write(block, static_cast<uint32_t>(kBlockHeaderBytes) + block->committed, &slot_);
  dirty_ = error != 0;
  return error;
}

void Drainer::add_sentences() {
  for (uint32_t id = kNone + 1; id <= kDamaged; ++id) {
    const std::string_view text = kSentences[id];
    const String row = {id, static_cast<uint32_t>(text.size())};
    own_strings_.append(&row, sizeof(row), text, &definitions_);
  }
}

// Records a loss in any case: if there is no space for another row, a row with the same cause grows.
void Drainer::tell(const Loss& loss) {
  if (own_losses_.append(&loss, sizeof(loss), {}, &losses_)) return;
  const auto same_cause = [&](const Loss& row) { return row.cause == loss.cause && row.kind == loss.kind; };
  const auto any = [](const Loss&) { return true; };
  Loss* row = own_losses_.last<Loss>(same_cause);
  if (!row) row = own_losses_.last<Loss>(any);
  if (row->kind != loss.kind) row->kind = 0;
  row->count += loss.count;
  row->end = loss.end;
  row->counter = 0;
}

void Drainer::tell_ring_loss(uint32_t index, bool now) {
  Ring* ring = &rings_[index];
  RingDescriptor* shared = descriptor(index);
  const uint64_t lost = load_acquire(&shared->lost);
  ring->lost_told = std::max(ring->lost_told, shared->lost_reported);
  const uint64_t told = ring->lost_told;
  if (lost == told || (!now && visit_time_ < ring->lost_told_at + kTellEveryNs)) return;
  const uint64_t start = told == 0 ? shared->lost_first : ring->lost_until;
  const uint64_t end = shared->lost_last;
  const uint64_t written = std::min(ring->surplus, lost - told);
  const uint64_t rows = lost - told - written;
  if (rows)
    tell({visit_time_, start, end, rows, kRingFull, kRing, ring->kind, kDataLost, kRingLost, ring->writer,
          told});
  ring->surplus -= written;
  ring->lost_told = lost;
  ring->lost_told_at = visit_time_;
  ring->lost_until = end;
  lost_rows_ += rows;
}

void Drainer::tell_unwritten(uint32_t index) {
  Ring* ring = &rings_[index];
  RingDescriptor* shared = descriptor(index);
  ring->unwritten_told = std::max(ring->unwritten_told, shared->unwritten_reported);
  const uint64_t rows = shared->unwritten - ring->unwritten_told;
  if (!rows) return;
  tell({visit_time_, ring->unwritten_since, visit_time_, rows, sentence_of_error(last_error_), kDrainer,
        ring->kind, kDataLost, kRingUnwritten, ring->writer, ring->unwritten_told});
  ring->unwritten_told = shared->unwritten;
}

void Drainer::tell_losses(bool all) {
  for (uint32_t i = 0; i < known_; ++i) {
    if (!rings_[i].noted) continue;
    tell_ring_loss(i, all);
    tell_unwritten(i);
  }
  no_ring_told_ = std::max(no_ring_told_, header()->lost_no_ring_reported);
  const uint64_t no_ring = load_acquire(&header()->lost_no_ring);
  if (no_ring != no_ring_told_) {
    const uint64_t rows = no_ring - no_ring_told_;
    tell({visit_time_, 0, visit_time_, rows, kArenaFull, kRing, 0, kDataLost, kNoRing, 0, no_ring_told_});
    no_ring_told_ = no_ring;
    lost_rows_ += rows;
  }
  if (damaged_ != damaged_told_) {
    tell({visit_time_, 0, visit_time_, damaged_ - damaged_told_, kDamaged, kDrainer, 0, kDataLost, 0, 0, 0});
    damaged_told_ = damaged_;
  }
}

// These rows are on disk and are not reported again. If a drainer dies just before this point, the next one's
// rows replace its rows.
void Drainer::note_told() {
  for (uint32_t i = 0; i < known_; ++i) {
    if (!rings_[i].noted) continue;
    RingDescriptor* shared = descriptor(i);
    shared->lost_reported = std::max(shared->lost_reported, rings_[i].lost_told);
    shared->unwritten_reported = std::max(shared->unwritten_reported, rings_[i].unwritten_told);
  }
  header()->lost_no_ring_reported = no_ring_told_;
}

void Drainer::write_own() {
  int error = own_strings_.write(&definitions_);
  if (error == 0) error = own_losses_.write(&losses_);
  if (error) visit_error_ = last_error_ = error;
  if (error == 0) note_told();
}

}  // namespace warpsight
