// Queues the program created: the properties it requested, those we added, and how long they must stay.
#include <pthread.h>

#include <algorithm>

#include "../runtime/runtime.h"
#include "objects.h"
#include "recorder.h"

namespace warpsight {
namespace {

HandleMap<ClQueue*>& queues() {
  static auto& map = *new HandleMap<ClQueue*>;
  return map;
}

// Whether timestamps are ours alone, by handle. Outlives our ClQueue: the program may still ask an event of a
// queue that it has released.
HandleMap<bool>& hidden_queues() {
  static auto& map = *new HandleMap<bool>;
  return map;
}

// Goes up when a queue appears or goes; makes every thread's memory of its last queues stale.
std::atomic<uint32_t> g_queue_generation{1};

SpinLock g_orphans_lock;  // protects the list of queues that only we hold
std::vector<ClQueue*>& orphans() {
  static auto& list = *new std::vector<ClQueue*>;
  return list;
}

// The queues a thread used last: a lookup without the map's lock.
struct RecentQueue {
  cl_command_queue handle;
  ClQueue* queue;
  uint32_t generation;
};
constexpr size_t kRecent = 8;
__thread RecentQueue t_recent[kRecent];

void write_stream(const ClQueue& queue) {
  Stream row{};
  row.context = queue.context;
  row.stream = queue.id;
  row.flags = static_cast<uint32_t>(queue.properties);
  row.device = queue.device->index;
  row.time = now_ns();
  write(row);
}

template <class Value>
bool queue_value(cl_command_queue queue, cl_command_queue_info what, Value* value) {
  return g_cl.clGetCommandQueueInfo(queue, what, sizeof(*value), value, nullptr) == CL_SUCCESS;
}

ClQueue* adopt_queue(cl_command_queue queue) {
  cl_context context = nullptr;
  cl_device_id device = nullptr;
  cl_command_queue_properties properties = 0;
  cl_uint references = 1;
  if (!queue || !queue_value(queue, CL_QUEUE_CONTEXT, &context) ||
      !queue_value(queue, CL_QUEUE_DEVICE, &device) ||
      !queue_value(queue, CL_QUEUE_PROPERTIES, &properties)) {
    return nullptr;
  }
  queue_value(queue, CL_QUEUE_REFERENCE_COUNT, &references);
  ClQueue* noted = note_queue(queue, context, device, properties, false, nullptr);
  noted->references = static_cast<int32_t>(references);
  return noted;
}

}  // namespace

ClQueue* note_queue(cl_command_queue queue, cl_context context, cl_device_id device,
                    cl_command_queue_properties asked, bool added, std::vector<cl_queue_properties>* listed) {
  static std::atomic<uint32_t> next{1};
  auto* noted = new ClQueue{};
  noted->handle = queue;
  noted->id = next.fetch_add(1, std::memory_order_relaxed);
  ClContext* known = find_context(context);
  noted->context = (known ? known : note_context(context, device))->id;
  noted->device = find_device(device);
  noted->hidden = added;
  noted->profiled = added || (asked & CL_QUEUE_PROFILING_ENABLE);
  noted->properties = asked;
  noted->listed = listed;
  noted->references = 1;
  hidden_queues().put(queue, added);
  queues().put(queue, noted);
  g_queue_generation.fetch_add(1, std::memory_order_release);
  if (recording()) announce_objects();
  return noted;
}

ClQueue* known_queue(cl_command_queue queue) {
  uint32_t generation = g_queue_generation.load(std::memory_order_acquire);
  RecentQueue& recent = t_recent[(reinterpret_cast<uintptr_t>(queue) >> 6) % kRecent];
  if (recent.handle == queue && recent.generation == generation) return recent.queue;
  ClQueue* found = nullptr;
  if (queues().get(queue, &found)) recent = {queue, found, generation};
  return found;
}

ClQueue* find_queue(cl_command_queue queue) {
  ClQueue* found = known_queue(queue);
  return found ? found : adopt_queue(queue);
}

bool hides_timestamps(cl_command_queue queue) {
  bool hidden = false;
  return hidden_queues().get(queue, &hidden) && hidden;
}

void show_timestamps(ClQueue* queue) {
  queue->hidden = false;
  hidden_queues().put(queue->handle, false);
}

void retain_queue(cl_command_queue queue) {
  queues().change(queue, [](ClQueue* known) {
    ++known->references;
    return false;
  });
}

void release_queue(cl_command_queue queue) {
  ClQueue* last = nullptr;
  queues().change(queue, [&](ClQueue* known) {
    if (--known->references > 0) return false;
    last = known;
    return true;
  });
  if (!last) return;
  g_queue_generation.fetch_add(1, std::memory_order_release);
  if (last->pending.load(std::memory_order_acquire) == 0) {
    // Nothing refers to it any more: a thread that still had it in mind sees another generation.
    delete last->listed;
    delete last;
    return;
  }
  g_cl.clRetainCommandQueue(queue);
  g_cl.clFlush(queue);  // the action of the last release
  LockGuard guard(g_orphans_lock);
  orphans().push_back(last);
}

void reap_queues() {
  std::vector<ClQueue*> done;
  {
    LockGuard guard(g_orphans_lock);
    auto& list = orphans();
    auto finished = [](ClQueue* queue) { return queue->pending.load(std::memory_order_acquire) == 0; };
    auto middle = std::partition(list.begin(), list.end(), [&](ClQueue* queue) { return !finished(queue); });
    done.assign(middle, list.end());
    list.erase(middle, list.end());
  }
  for (ClQueue* queue : done) {
    g_cl.clReleaseCommandQueue(queue->handle);
    delete queue->listed;
    delete queue;
  }
}

void flush_queues() {
  std::vector<cl_command_queue> waiting;
  queues().each([&](ClQueue* queue) {
    if (queue->pending.load(std::memory_order_acquire) == 0) return;
    g_cl.clRetainCommandQueue(
        queue->handle);  // under the lock: the program cannot release its last reference now
    waiting.push_back(queue->handle);
  });
  for (cl_command_queue queue : waiting) {
    g_cl.clFlush(queue);
    g_cl.clReleaseCommandQueue(queue);
  }
}

void announce_queues(uint32_t recording_number) {
  queues().each([&](ClQueue* queue) {
    if (queue->announced == recording_number) return;
    queue->announced = recording_number;
    write_stream(*queue);
  });
}

void announce_objects() {
  announce_contexts(g_cl_recording);
  announce_queues(g_cl_recording);
}

}  // namespace warpsight
