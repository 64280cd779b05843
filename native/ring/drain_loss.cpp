// What the drainer tells about losses, in rows of its own.
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ring/arena.h"
#include "ring/crc32.h"
#include "ring/drain.h"

namespace warpsight {

namespace {

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
    if (write(file) != 0) return false;
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

bool Drainer::tell(uint32_t source, uint32_t cause, uint64_t count, uint64_t start, uint64_t end,
                   uint32_t kind) {
  for (const uint32_t id : {source, cause}) {
    if (sentences_written_ >> id & 1) continue;
    const std::string_view text = kSentences[id];
    const String row = {id, static_cast<uint32_t>(text.size())};
    if (!own_strings_.append(&row, sizeof(row), text, &definitions_)) return false;
    sentences_written_ |= 1u << id;
  }
  constexpr uint32_t kDataLost = 2;
  const Loss row = {visit_time_, start, end, count, cause, source, kind, kDataLost};
  return own_losses_.append(&row, sizeof(row), {}, &data_);
}

void Drainer::tell_ring_loss(uint32_t index, bool now) {
  Ring* ring = &rings_[index];
  RingDescriptor* shared = descriptor(index);
  const uint64_t lost = load_acquire(&shared->lost);
  const uint64_t told = shared->lost_reported;
  if (lost == told || (!now && visit_time_ < ring->lost_told_at + kTellEveryNs)) return;
  const uint64_t start = told == 0 ? shared->lost_first : ring->lost_until;
  const uint64_t end = shared->lost_last;
  const uint64_t written = std::min(ring->surplus, lost - told);
  const uint64_t rows = lost - told - written;
  if (rows && !tell(kRing, kRingFull, rows, start, end, ring->kind)) return;
  ring->surplus -= written;
  shared->lost_reported = lost;
  ring->lost_told_at = visit_time_;
  ring->lost_until = end;
  lost_rows_ += rows;
}

void Drainer::tell_losses(bool all) {
  ArenaHeader* shared = header();
  for (uint32_t i = 0; i < known_; ++i) {
    if (rings_[i].noted) tell_ring_loss(i, all);
  }
  const uint64_t no_ring = load_acquire(&shared->lost_no_ring);
  const uint64_t told = shared->lost_no_ring_reported;
  if (no_ring != told && tell(kRing, kArenaFull, no_ring - told, 0, visit_time_, 0)) {
    shared->lost_no_ring_reported = no_ring;
    lost_rows_ += no_ring - told;
  }
  if (unwritten_rows_ != unwritten_told_ && (all || visit_error_ == 0) &&
      tell(kDrainer, sentence_of_error(last_error_), unwritten_rows_ - unwritten_told_, unwritten_since_,
           visit_time_, 0)) {
    unwritten_told_ = unwritten_rows_;
  }
  if (damaged_ != damaged_told_ && tell(kDrainer, kDamaged, damaged_ - damaged_told_, 0, visit_time_, 0)) {
    damaged_told_ = damaged_;
  }
}

void Drainer::write_own() {
  int error = own_strings_.write(&definitions_);
  if (error == 0) error = own_losses_.write(&data_);
  if (error) visit_error_ = last_error_ = error;
}

}  // namespace warpsight
