// Words of the ring in host memory that the library drains. `Launch`: WsLaunch, or WsTool of the tool for
// NVBit.
#pragma once

#include "sanitizer/group.cuh"

namespace {

// Every word of a record is written once, whole, and is not zero: the reader takes a record when all of it is
// there, and no fence is needed, which across the bus costs a microsecond.
template <class Launch>
DEVICE void store(const Launch* launch, u64 at, u64 value) {
  *reinterpret_cast<volatile u64*>(launch->ring + (at & launch->mask)) = value != 0 ? value : launch->zero;
}

// Waits until the ring has room for the words up to `end`. How far the reader is was last seen is kept on the
// device, since a look at the host's memory takes a microsecond. Signed: a reader that gave up says that it
// is far ahead.
template <class Launch>
DEVICE void wait_for_room(const Launch* launch, u64 end) {
  const i64 room = static_cast<i64>(launch->mask + 1);
  if (static_cast<i64>(end - *launch->tail_seen) <= room) return;
  u64 tail = *launch->tail;
  while (static_cast<i64>(end - tail) > room) {
    __nanosleep(500);
    tail = *launch->tail;
  }
  *launch->tail_seen = tail;
}

}  // namespace
