// Numbers of operations in their communicators: equal on all ranks, whenever each began to record.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpsight::nccl {

constexpr uint64_t kNoSequence = ~uint64_t{0};

// One rank's side of a communicator. Every operation is counted, recorded or not.
class Communicator {
 public:
  static Communicator* create(uint64_t hash, const char* name, int ranks,
                              int rank);  // nullptr without memory
  static void destroy(Communicator* one);

  // Of versions before 4, which name the communicator in each event; nullptr when there are too many.
  static Communicator* of_hash(uint64_t hash, int rank);

  uint64_t next_collective() { return collectives_.fetch_add(1, std::memory_order_relaxed); }

  // The n-th message in each direction between two ranks has one number on both; kNoSequence where the number
  // of ranks is not known.
  uint64_t next_message(bool sends, int peer);

  uint64_t hash() const { return hash_; }
  const char* name() const { return name_; }
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }

 private:
  uint64_t hash_;
  char name_[64];
  int ranks_, rank_;
  std::atomic<uint64_t> collectives_;  // counts collectives: NCCL's threads may take turns
  std::atomic<uint32_t>* messages_;    // counts messages by peer and direction; nullptr unknown
};

}  // namespace warpsight::nccl
