// The ring of a context that patches write records to and our thread drains into the event file.
#pragma once

#include <cstdint>
#include <vector>

#include "sanitizer/event_file.h"

namespace warpsight {

// In host memory that the device writes to; the reader zeroes what it has taken, so that word 0 of a record
// that is not there yet is zero.
class EventRing {
 public:
  // `words`: `mask` + 1 of them, zeroed; `tail`: where the device reads how far we are.
  // `zero`: stands for a word of zero.
  EventRing(uint32_t number, uint64_t* words, uint64_t mask, volatile uint64_t* tail, uint64_t zero)
      : number_(number), words_(words), mask_(mask), tail_(tail), zero_(zero) {}

  // Takes the records that are there, at most a block's worth; returns how many. One thread at a time.
  size_t drain(EventFile* file);
  // Hands over what waits to be a whole block.
  void flush(EventFile* file);
  // A record that was begun and never finished is where we read; the kernel ended in its middle.
  bool stuck() const;

 private:
  bool whole(uint64_t count) const;
  void take(uint64_t count);

  const uint32_t number_;
  uint64_t* const words_;
  const uint64_t mask_;
  volatile uint64_t* const tail_;
  const uint64_t zero_;
  uint64_t position_ = 0;  // words taken
  uint64_t begin_ = 0;     // position of the first word of `taken_`
  bool damaged_ = false;
  std::vector<uint8_t> lengths_;
  std::vector<uint64_t> taken_;
};

}  // namespace warpsight
