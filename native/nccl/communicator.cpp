#include "nccl/communicator.h"

#include <stdlib.h>
#include <string.h>

namespace warpsight::nccl {
namespace {

constexpr uint32_t kPlaces = 256;  // communicators of versions before 4
struct Place {
  std::atomic<uint64_t> hash;      // claims the place: 0 free
  std::atomic<Communicator*> one;  // nullptr until it is made
};
Place g_places[kPlaces];

}  // namespace

Communicator* Communicator::create(uint64_t hash, const char* name, int ranks, int rank) {
  auto* one = static_cast<Communicator*>(calloc(1, sizeof(Communicator)));
  if (one == nullptr) return nullptr;
  one->hash_ = hash;
  if (name != nullptr) strncpy(one->name_, name, sizeof one->name_ - 1);
  one->ranks_ = ranks;
  one->rank_ = rank;
  if (ranks > 0)
    one->messages_ =
        static_cast<std::atomic<uint32_t>*>(calloc(2 * static_cast<size_t>(ranks), sizeof(uint32_t)));
  return one;
}

void Communicator::destroy(Communicator* one) {
  if (one == nullptr) return;
  free(one->messages_);
  free(one);
}

Communicator* Communicator::of_hash(uint64_t hash, int rank) {
  const uint64_t key = hash | 1;
  for (uint32_t probe = 0; probe < kPlaces; ++probe) {
    Place& place = g_places[(hash / 2 + probe) % kPlaces];
    uint64_t free_place = 0;
    if (place.hash.compare_exchange_strong(free_place, key, std::memory_order_acq_rel)) {
      Communicator* made = create(hash, nullptr, -1, rank);
      place.one.store(made, std::memory_order_release);
      return made;
    }
    if (free_place == key) return place.one.load(std::memory_order_acquire);
  }
  return nullptr;
}

uint64_t Communicator::next_message(bool sends, int peer) {
  if (messages_ == nullptr || peer < 0 || peer >= ranks_) return kNoSequence;
  const uint32_t number = messages_[2 * peer + (sends ? 1 : 0)].fetch_add(1, std::memory_order_relaxed);
  const int sender = sends ? rank_ : peer, receiver = sends ? peer : rank_;
  return 2 * static_cast<uint64_t>(number) + (sender < receiver ? 0 : 1);
}

}  // namespace warpsight::nccl
