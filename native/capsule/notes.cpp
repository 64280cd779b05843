#include "capsule/notes.h"

#include <time.h>

#include <algorithm>

#include "capsule/output.h"

namespace warpsight {

void Notes::add(const char* what, const uint64_t* addresses, size_t count) {
  const uint64_t sequence = next_.fetch_add(1, std::memory_order_relaxed) + 1;
  Note& note = notes_[sequence % kNotes];
  note.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // before what follows is changed
  note.what = what;
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);  // to some milliseconds, for a quarter of the time
  note.time = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
  note.count = std::min(count, kAddresses);
  std::copy_n(addresses, note.count, note.addresses);
  note.sequence.store(sequence, std::memory_order_release);
  __builtin_prefetch(&notes_[(sequence + 1) % kNotes], 1);
}

std::string Notes::latest(uint64_t begin, uint64_t end) const {
  const char* what = nullptr;
  uint64_t latest = 0, time = 0;
  for (size_t i = 0; i < kNotes; ++i) {
    const Note& note = notes_[i];
    const uint64_t sequence = note.sequence.load(std::memory_order_acquire);
    if (sequence <= latest) continue;
    const bool inside = std::any_of(note.addresses, note.addresses + note.count,
                                    [=](uint64_t address) { return begin <= address && address < end; });
    const char* const call = note.what;
    const uint64_t called = note.time;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (inside && note.sequence.load(std::memory_order_relaxed) == sequence)
      what = call, time = called, latest = sequence;
  }
  if (latest == 0) return "";
  return Json("call").text("what", what).number("time", time).number("sequence", latest).done();
}

}  // namespace warpsight
