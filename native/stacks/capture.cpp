// Taking the calling thread's stack. The repeated stack is the fast path: a walk, a hash, a comparison.
#include <pthread.h>

#include <algorithm>

#include "ring/hot.h"
#include "ring/lock.h"
#include "runtime/runtime.h"
#include "stacks/frame_ids.h"
#include "stacks/interpreter.h"
#include "stacks/native_frames.h"
#include "stacks/stacks.h"
#include "stacks/thread_cache.h"
#include "stacks/waiter.h"

namespace warpsight {

namespace {

WARPSIGHT_HOT_DATA StackMode g_mode = StackMode::off;  // off until prepare_stacks
WARPSIGHT_HOT_DATA uint32_t g_depth = 128;
// atomic: times that a library was unloaded; remembered native stacks are void then
WARPSIGHT_HOT_DATA uint32_t g_unloads = 0;
constexpr PythonLayout k310 = compiled_layout(10), k311 = compiled_layout(11);
constexpr PythonLayout k312 = compiled_layout(12), k313 = compiled_layout(13);
WARPSIGHT_HOT_DATA uint32_t g_compiled = 0;  // the index of the interpreter's layout, 0: none
SpinLock g_ids_lock;                         // protects g_frame_ids and the tables of native_frames.cpp
FrameIds* g_frame_ids = nullptr;  // never freed: other threads may be launching while the process exits

// One stack as it was read, before it has an id.
struct Taken {
  Chain python;
  const uint64_t* addresses;  // native, innermost first
  uint32_t address_count;
  uint32_t skip;  // innermost native frames that belong to the caller of capture_stack
};

bool g_several_told = false, g_unnumbered_told = false;  // atomic: said once

void after_fork_in_child() {
  g_ids_lock.reset();
  g_frame_ids = nullptr;
  forget_native_frames();
  forget_stack_definitions();
}

uint32_t compiled_minor(const PythonLayout& layout) {
  const PythonLayout compiled = compiled_layout(layout.minor);
  return memcmp(&compiled, &layout, sizeof(layout)) == 0 ? layout.minor : 0;
}

template <class Memory>
uint32_t python_frame(Memory& memory, const Place& place) {
  if (!g_frame_ids) g_frame_ids = new FrameIds();
  return g_frame_ids->get(g_interpreter.layout, memory, place, g_interpreter.code_type);
}

// Frame ids of a stack, innermost first, at most g_depth.
class FrameList {
 public:
  void add(uint32_t frame) {
    if (count_ == g_depth) {
      cut_ = true;
      return;
    }
    complete_ = complete_ && frame;
    frames_[count_++] = frame;
  }
  void set_cut() { cut_ = true; }
  // Defines the stack from its root inwards; 0 when any part of it could not be defined.
  uint32_t define(uint8_t method) const {
    uint32_t stack = 0;
    for (uint32_t i = complete_ ? count_ : 0; i-- > 0;) {
      stack = define_stack(stack, frames_[i], method, cut_);
      if (!stack) return 0;
    }
    return stack;
  }

 private:
  uint32_t count_ = 0;
  bool cut_ = false;
  bool complete_ = true;
  uint32_t frames_[kMostDepth];
};

template <class Memory>
void add_python(Memory& memory, const Chain& python, FrameList* frames) {
  for (uint32_t i = 0; i < python.count; ++i) frames->add(python_frame(memory, python.places[i]));
  if (python.cut) frames->set_cut();
}

// Whether activations of the interpreter's loop can be distinguished from its other functions in this stack:
// not where the loop is a chain of functions without names (3.14's tail calls in a stripped interpreter).
bool shows_loop(const Taken& taken) {
  for (uint32_t i = std::min(taken.skip, taken.address_count); i < taken.address_count; ++i) {
    if (address_kind(taken.addresses[i]) == AddressKind::evaluator) return true;
  }
  return false;
}

// Native frames, with each activation of the interpreter's loop replaced by the Python frames that ran in it.
// If they cannot be told apart, all Python frames go between the functions they called and the interpreter's
// innermost function.
void add_native(const Taken& taken, FrameList* frames) {
  OwnMemory memory;
  uint32_t next = 0;
  bool inner = true;
  const bool apart = taken.python.count && shows_loop(taken);
  for (uint32_t i = std::min(taken.skip, taken.address_count); i < taken.address_count; ++i) {
    const AddressKind kind = address_kind(taken.addresses[i]);
    if (inner && kind == AddressKind::ours) continue;
    inner = false;
    if (!apart && kind == AddressKind::interpreter) {
      for (; next < taken.python.count; ++next) frames->add(python_frame(memory, taken.python.places[next]));
    }
    if (kind != AddressKind::evaluator || !taken.python.count) {
      frames->add(native_frame(taken.addresses[i]));
      continue;
    }
    for (bool entry = false; !entry && next < taken.python.count; ++next) {
      entry = taken.python.places[next].fingerprint & kEntry;
      frames->add(python_frame(memory, taken.python.places[next]));
    }
  }
  if (taken.python.cut || taken.address_count == kMostAddresses) frames->set_cut();
}

__attribute__((noinline)) uint32_t define_taken(const Taken& taken) {
  FrameList frames;
  LockGuard guard(g_ids_lock);
  if (g_mode == StackMode::python) {
    OwnMemory memory;
    add_python(memory, taken.python, &frames);
    return frames.define(kStackFrameChain);
  }
  if (refresh_modules()) __atomic_fetch_add(&g_unloads, 1u, __ATOMIC_RELAXED);
  add_native(taken, &frames);
  return frames.define(kStackUnwinder);
}

WARPSIGHT_INLINE bool walk_own_frames(const PythonLayout& layout, uint64_t thread_state, Chain* chain) {
  OwnMemory memory;
  uint64_t frame;
  return innermost_frame(layout, memory, thread_state, &frame) &&
         walk_frames(layout, memory, frame, g_depth, false, chain);
}

// Reads the thread's Python frames into `chain`; false if it has none.
WARPSIGHT_HOT bool take_python(Chain* chain) {
  const Interpreter& python = g_interpreter;
  if (__builtin_expect(python.now() != Interpreter::State::ready, 0) && !check_interpreter()) return false;
  const uint64_t thread_state = own_thread_state(python);
  if (!thread_state) return false;
  switch (g_compiled) {
    case 10:
      return walk_own_frames(k310, thread_state, chain);
    case 11:
      return walk_own_frames(k311, thread_state, chain);
    case 12:
      return walk_own_frames(k312, thread_state, chain);
    case 13:
      return walk_own_frames(k313, thread_state, chain);
    default:
      return walk_own_frames(python.layout, thread_state, chain);
  }
}

uint64_t finished(uint64_t hash) { return (hash ^ hash >> 32) * kMixE; }

void tell(bool* told, const char* cause) {
  if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
    report_loss("python stacks", cause, 1, Severity::note);
}

// The stack of the thread that waits for the backward pass this thread works on. `final`: a later launch of
// the same pass would get the same answer.
__attribute__((noinline)) uint32_t waiters_stack(ThreadCache* cache, bool* final) {
  Waiter waiter(g_interpreter);
  Chain chain = {reinterpret_cast<Place*>(cache->scratch), 0, false, 0};
  const Waiting waiting = waiter.find(g_depth, &chain);
  *final = waiting != Waiting::moving;
  if (waiting == Waiting::several) {
    tell(&g_several_told,
         "several threads ran backward at once; launches of PyTorch's engine meanwhile have no stack");
  }
  if (waiting != Waiting::one) return 0;
  uint32_t words = chain.count * ThreadCache::kPlaceWords;
  cache->scratch[words++] = chain.cut;
  // Another hash than that of the same frames taken as one's own.
  const uint64_t hash = finished((chain.hash ^ kMixF) + chain.cut);
  if (const uint32_t known = cache->find(hash, words)) return known;
  FrameList frames;
  uint32_t id;
  {
    LockGuard guard(g_ids_lock);
    add_python(waiter.memory(), chain, &frames);
    id = frames.define(kStackWaiter);
  }
  *final = id && waiter.still(chain);
  if (!*final) return 0;
  cache->add(hash, words, id);
  return id;
}

// The same, found once per pass if PyTorch numbers them. If it does not (before 2.0), and while the waiting
// thread changes, repeated lookups are limited to a share of the thread's time; launches in between have no
// stack.
uint32_t stack_of_pass(ThreadCache* cache) {
  constexpr uint64_t kPart = 20;
  const int64_t pass = current_pass();
  if (pass == kNoPass) return 0;
  if (pass != kUnknownPass && pass == cache->pass) return cache->pass_stack;
  const uint64_t begun = now_ns();
  if ((pass == kUnknownPass || pass == cache->pass_tried) && begun < cache->look_again) return 0;
  bool final = false;
  const uint32_t id = waiters_stack(cache, &final);
  cache->look_again = begun + kPart * (now_ns() - begun);
  cache->pass_tried = pass;
  if (pass == kUnknownPass) {
    // A thread waits in PyTorch's backward pass, so it exists; most threads without frames do not belong to
    // its engine.
    if (id) {
      tell(&g_unnumbered_told,
           "PyTorch does not number its backward passes; only some launches of its engine have a stack");
    }
  } else if (final) {
    cache->pass = pass, cache->pass_stack = id;
  }
  return id;
}

// A stack that was not found by its hash.
WARPSIGHT_COLD uint32_t capture_whole(ThreadCache* cache, int skip_native) {
  Taken taken = {{reinterpret_cast<Place*>(cache->scratch), 0, false, 0}, nullptr, 0, 0};
  if (g_mode != StackMode::native && !take_python(&taken.python)) {
    if (g_mode == StackMode::python) return 0;
    taken.python.count = 0;
  }
  uint32_t words = taken.python.count * ThreadCache::kPlaceWords;
  if (g_mode != StackMode::python) {
    taken.addresses = &cache->scratch[words];
    taken.address_count = return_addresses(&cache->scratch[words], kMostAddresses);
    taken.skip = static_cast<uint32_t>(std::max(skip_native, 0));
    taken.python.hash ^= hash_words(taken.addresses, taken.address_count);
    words += taken.address_count;
  }
  if (!words) return 0;
  cache->scratch[words++] = taken.python.cut;
  const uint64_t hash = finished(taken.python.hash + taken.python.cut);
  if (const uint32_t known = cache->find(hash, words)) return known;
  const uint32_t id = define_taken(taken);
  if (id) cache->add(hash, words, id);
  return id;
}

// A stack of Python frames alone. One taken before is found without storing its frames: half of the memory
// that a walk touches.
WARPSIGHT_INLINE uint32_t capture_python(ThreadCache* cache, int skip_native) {
  Chain chain = {};
  if (!take_python(&chain)) return 0;
  if (!chain.count) return stack_of_pass(cache);
  const uint32_t words = chain.count * ThreadCache::kPlaceWords + 1;
  const uint32_t known = cache->find_hash(finished(chain.hash + chain.cut), words);
  return __builtin_expect(known != 0, 1) ? known : capture_whole(cache, skip_native);
}

}  // namespace

void prepare_stacks() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
  const Settings& wanted = settings();
  g_depth = static_cast<uint32_t>(std::clamp(wanted.stack_depth, 1, static_cast<int>(kMostDepth)));
  if (wanted.stacks == StackMode::python || wanted.stacks == StackMode::both) {
    find_interpreter();
    g_compiled = compiled_minor(g_interpreter.layout);
    current_pass();
    find_passes();
  }
  g_mode = wanted.stacks;
}

WARPSIGHT_HOT uint32_t capture_stack_with(ThreadCache* cache, int skip_native) {
  if (g_mode == StackMode::off) return 0;
  const Interpreter::State python = g_interpreter.now();
  if (g_mode == StackMode::python &&
      (python == Interpreter::State::absent || python == Interpreter::State::refused)) {
    return 0;
  }
  if (__builtin_expect(!cache, 0)) cache = make_thread_cache();
  if (!cache || cache->busy) return 0;
  cache->busy = true;
  const uint32_t generation = definition_generation() + (__atomic_load_n(&g_unloads, __ATOMIC_RELAXED) << 8);
  if (__builtin_expect(cache->generation != generation, 0)) {
    cache->clear();
    cache->generation = generation;
  }
  const uint32_t id =
      g_mode == StackMode::python ? capture_python(cache, skip_native) : capture_whole(cache, skip_native);
  cache->busy = false;
  return id;
}

uint32_t capture_stack(int skip_native) { return capture_stack_with(t_stack_cache, skip_native); }

}  // namespace warpsight
