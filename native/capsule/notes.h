// Who may have written memory last: the latest launches, copies and fills, with the addresses that they were
// given.
#pragma once

#include <atomic>
#include <memory>
#include <string>

namespace warpsight {

class Notes {
 public:
  static constexpr size_t kAddresses = 12;
  static constexpr size_t kNotes = 1 << 14;  // that are kept

  Notes() : notes_(new Note[kNotes]) {}
  // `what` must live for ever.
  void add(const char* what, const uint64_t* addresses, size_t count);
  // The latest one given an address in begin <= address < end, as a JSON object; "" if there is none.
  std::string latest(uint64_t begin, uint64_t end) const;

 private:
  struct alignas(64) Note {             // those with up to four addresses fill a cache line
    std::atomic<uint64_t> sequence{0};  // published last; 0 while it is written
    const char* what;
    uint64_t time;
    size_t count;
    uint64_t addresses[kAddresses];
  };
  std::atomic<uint64_t> next_{0};  // of the next note
  const std::unique_ptr<Note[]> notes_;
};

}  // namespace warpsight
