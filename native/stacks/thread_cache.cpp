#include "stacks/thread_cache.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "ring/hot.h"

namespace warpsight {

__thread ThreadCache* t_stack_cache = nullptr;

namespace {

pthread_key_t g_key;
pthread_once_t g_once = PTHREAD_ONCE_INIT;

void release(void* cache) {
  t_stack_cache = nullptr;
  munmap(cache, sizeof(ThreadCache));
}

void make_key() { pthread_key_create(&g_key, release); }

}  // namespace

WARPSIGHT_COLD ThreadCache* make_thread_cache() {
  pthread_once(&g_once, make_key);
  // Mapped, not allocated: the caller may be inside the program's allocator. Untouched pages cost nothing.
  void* memory =
      mmap(nullptr, sizeof(ThreadCache), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  t_stack_cache = static_cast<ThreadCache*>(memory);
  t_stack_cache->pass = t_stack_cache->pass_tried = -1;
  pthread_setspecific(g_key, memory);
  return t_stack_cache;
}

uint64_t hash_words(const uint64_t* words, uint32_t count) {
  // Four independent lanes: the multiplications overlap.
  uint64_t a = count, b = kMixA, c = kMixB, d = kMixC;
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    a = (a ^ words[i]) * kMixD;
    b = (b ^ words[i + 1]) * kMixE;
    c = (c ^ words[i + 2]) * kMixF;
    d = (d ^ words[i + 3]) * kMixA;
    a ^= a >> 29, b ^= b >> 29, c ^= c >> 29, d ^= d >> 29;
  }
  for (; i < count; ++i) a = (a ^ words[i]) * kMixD, a ^= a >> 29;
  const uint64_t hash = (a ^ b * kMixB) + (c ^ d * kMixC);
  return (hash ^ hash >> 32) * kMixE;
}

uint32_t ThreadCache::find(uint64_t hash, uint32_t words) const {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const Slot& slot = slots[((hash >> 32) + probe) & (kSlots - 1)];
    if (slot.id && slot.hash == hash && slot.words == words &&
        memcmp(&log[slot.first], scratch, words * 8) == 0) {
      return slot.id;
    }
  }
  return 0;
}

uint32_t ThreadCache::find_slot(uint64_t hash, uint32_t words) const {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const Slot& slot = slots[((hash >> 32) + probe) & (kSlots - 1)];
    if (slot.id && slot.hash == hash && slot.words == words) return slot.id;
  }
  return 0;
}

void ThreadCache::add(uint64_t hash, uint32_t words, uint32_t id) {
  if (log_used + words > kLogWords) clear();
  Slot* slot = &slots[hash >> 32 & (kSlots - 1)];
  for (uint32_t probe = 0; probe < kProbes && slot->id; ++probe)
    slot = &slots[((hash >> 32) + probe) & (kSlots - 1)];
  *slot = {hash, log_used, words, id, 0};
  memcpy(&log[log_used], scratch, words * 8);
  log_used += words;
}

void ThreadCache::clear() {
  memset(slots, 0, sizeof(slots));
  memset(recent, 0, sizeof(recent));
  log_used = 0;
  pass = pass_tried = -1;
}

}  // namespace warpsight
