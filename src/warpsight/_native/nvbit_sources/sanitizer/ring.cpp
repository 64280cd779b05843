#include "sanitizer/ring.h"

#include "sanitizer/event_format.h"

namespace warpsight {
namespace {

constexpr size_t kBlockWords = 1 << 17;   // 1 MiB
constexpr uint64_t kTailEvery = 1 << 12;  // words between two looks of the device at how far we are
constexpr uint64_t kGaveUp = 1ull << 62;

}  // namespace

bool EventRing::whole(uint64_t count) const {
  for (uint64_t i = 0; i < count; ++i) {
    if (__atomic_load_n(&words_[(position_ + i) & mask_], __ATOMIC_RELAXED) == 0) return false;
  }
  return true;
}

// Copies one record and zeroes it.
void EventRing::take(uint64_t count) {
  lengths_.push_back(static_cast<uint8_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t& word = words_[(position_ + i) & mask_];
    taken_.push_back(word != zero_ ? word : 0);
    word = 0;
  }
  position_ += count;
}

size_t EventRing::drain(EventFile* file) {
  size_t records = 0;
  uint64_t told = position_;
  while (!damaged_ && taken_.size() < kBlockWords) {
    const uint64_t first = __atomic_load_n(&words_[position_ & mask_], __ATOMIC_RELAXED);
    const uint64_t count = first >> 40 & 255;
    if (first == 0) break;
    damaged_ = count < WS_EVENT_HEADER_WORDS || count > WS_EVENT_LARGEST;
    if (damaged_) file->lose("a record of the ring is damaged; what follows in it is not read", 1);
    if (damaged_ || !whole(count)) break;
    take(count);
    ++records;
    if (position_ - told >= kTailEvery) {
      told = position_;
      __atomic_store_n(tail_, position_,
                       __ATOMIC_RELEASE);  // what was taken is zeroed before it is handed out
    }
  }
  // Far ahead where the ring is damaged: no kernel waits for us.
  __atomic_store_n(tail_, damaged_ ? kGaveUp : position_, __ATOMIC_RELEASE);
  if (taken_.size() >= kBlockWords) flush(file);
  return records;
}

void EventRing::flush(EventFile* file) {
  if (!lengths_.empty()) file->add_events(number_, begin_, lengths_, taken_);
  lengths_.clear();
  taken_.clear();
  begin_ = position_;
}

bool EventRing::stuck() const {
  for (uint64_t i = 0; i < WS_EVENT_LARGEST; ++i) {
    if (words_[(position_ + i) & mask_] != 0) return true;
  }
  return false;
}

}  // namespace warpsight
