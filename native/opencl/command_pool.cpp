#include "command_pool.h"

#include <pthread.h>

#include <cstdlib>

namespace warpsight {

struct CommandPool {
  Command* ready;                  // the owner's alone
  std::atomic<Command*> returned;  // pushed by any thread, taken whole by the owner: no ABA
  CommandPool* next;
};

namespace {

constexpr int kChunk = 128;

SpinLock g_idle_lock;  // protects the pools of threads that have exited
CommandPool* g_idle = nullptr;

void pool_left_behind(void* pool) {
  LockGuard guard(g_idle_lock);
  auto* left = static_cast<CommandPool*>(pool);
  left->next = g_idle;
  g_idle = left;
}

__thread CommandPool* t_pool = nullptr;

CommandPool* pool_of_thread() {
  if (t_pool) return t_pool;
  static pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, pool_left_behind);
    return made;
  }();
  {
    LockGuard guard(g_idle_lock);
    if (g_idle) {
      t_pool = g_idle;
      g_idle = g_idle->next;
    }
  }
  if (!t_pool) t_pool = static_cast<CommandPool*>(calloc(1, sizeof(CommandPool)));
  pthread_setspecific(key, t_pool);
  return t_pool;
}

}  // namespace

Command* take_command() {
  CommandPool* pool = pool_of_thread();
  if (!pool) return nullptr;
  if (!pool->ready) pool->ready = pool->returned.exchange(nullptr, std::memory_order_acquire);
  if (!pool->ready) {
    auto* chunk = static_cast<Command*>(calloc(kChunk, sizeof(Command)));  // never freed: they circulate
    if (!chunk) return nullptr;
    for (int i = 0; i < kChunk; ++i) {
      chunk[i].pool = pool;
      chunk[i].next = i + 1 < kChunk ? &chunk[i + 1] : nullptr;
    }
    pool->ready = chunk;
  }
  Command* command = pool->ready;
  pool->ready = command->next;
  return command;
}

void give_command(Command* command) {
  std::atomic<Command*>& returned = command->pool->returned;
  command->next = returned.load(std::memory_order_relaxed);
  while (!returned.compare_exchange_weak(command->next, command, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

}  // namespace warpsight
