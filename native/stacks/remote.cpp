// The host sampler: Python stacks of another process's threads, read from outside without stopping it. The
// launcher's thread calls this at a fixed rate. The process keeps running, so the data may change during the
// read: a stack counts only if every frame is inside its own bytecode, and usually only if the thread was in
// the same frame before and after the walk.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "runtime/runtime.h"
#include "stacks/frame_ids.h"
#include "stacks/remote_python.h"

#define WARPSIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace warpsight {

namespace {

constexpr int kMostInterpreters = 64;
constexpr int kMostThreads = 4096;
constexpr int kAttempts = 3;
constexpr size_t kMostStateFiles = 256;  // /proc/…/stat files kept open

enum SamplerStatistic { kSamples = 0, kTorn = 1, kMoved = 2, kStatistics };

class Sampler {
 public:
  Sampler(pid_t pid, const RemoteMemory& memory, const RemotePython& python)
      : pid_(pid),
        memory_(memory),
        python_(python),
        o_(python_.layout),
        depth_(static_cast<uint32_t>(std::clamp(settings().stack_depth, 1, static_cast<int>(kMostDepth)))) {}
  ~Sampler();
  int sample();
  uint64_t statistic(int which) const { return which >= 0 && which < kStatistics ? statistics_[which] : 0; }

 private:
  int sample_interpreter(uint64_t interpreter);
  bool sample_thread(uint64_t thread_state);
  bool take_chain(uint64_t thread_state, Chain* chain);
  bool walk_once(uint64_t thread_state, Chain* chain, bool* same_frame);
  void fetch_code(uint64_t frame);
  bool inside_code(const Chain& chain);
  uint32_t define_chain(const Chain& chain);
  uint32_t thread_of(uint64_t thread_state);
  uint32_t thread_from_pthread(uint64_t pthread);
  bool find_thread_id_offset(uint64_t pthread);
  uint64_t gil_holder(uint64_t interpreter);
  char state_of(uint32_t thread);
  int failure() const;

  pid_t pid_;
  RemoteMemory memory_;
  RemotePython python_;
  const PythonLayout& o_;
  uint32_t depth_;
  FrameIds frame_ids_;
  uint64_t holder_ = 0;            // thread state that holds the GIL of the interpreter being sampled
  uint32_t thread_id_offset_ = 0;  // 3.10: of the kernel's thread id in the C library's thread descriptor
  std::unordered_map<uint32_t, int> state_files_;
  uint64_t statistics_[kStatistics] = {};
  Place places_[kMostDepth];
};

Sampler::~Sampler() {
  for (const auto& file : state_files_) close(file.second);
  frame_ids_.clear();
}

// The meaning of a failed read for the caller.
int Sampler::failure() const {
  if (kill(pid_, 0) != 0 && errno == ESRCH) return -ESRCH;
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/exe", pid_);
  char target[8];
  return readlink(path, target, sizeof(target)) < 0 ? -ESRCH
                                                    : -EAGAIN;  // a zombie no longer has an executable
}

int Sampler::sample() {
  memory_.forget();
  uint64_t interpreter;
  if (!memory_.copy_now(python_.runtime + o_.interpreters_head, &interpreter, sizeof(interpreter)))
    return failure();
  int sampled = 0;
  for (int i = 0; interpreter && i < kMostInterpreters; ++i) {
    const int threads = sample_interpreter(interpreter);
    if (threads < 0) return sampled ? sampled : failure();
    sampled += threads;
    if (!load(memory_, interpreter + o_.interpreter_next, &interpreter)) break;
  }
  return sampled;
}

uint64_t Sampler::gil_holder(uint64_t interpreter) {
  uint64_t gil = python_.runtime + o_.gil_in_runtime, holder = 0;
  int32_t locked = 0;
  if (o_.gil_pointer && !memory_.copy_now(interpreter + o_.gil_pointer, &gil, sizeof(gil))) return 0;
  if (!gil || !memory_.copy_now(gil + o_.gil_locked, &locked, sizeof(locked)) || locked != 1) return 0;
  return memory_.copy_now(gil + o_.gil_holder, &holder, sizeof(holder)) ? holder : 0;
}

int Sampler::sample_interpreter(uint64_t interpreter) {
  uint64_t thread_state;
  if (!load(memory_, interpreter + o_.threads_head, &thread_state)) return -1;
  holder_ = gil_holder(interpreter);
  int sampled = 0;
  for (int i = 0; thread_state && i < kMostThreads; ++i) {
    uint64_t next;
    if (!load(memory_, thread_state + o_.thread_next, &next))
      break;  // the list changed under us: the next time
    sampled += sample_thread(thread_state);
    thread_state = next;
  }
  return sampled;
}

bool Sampler::sample_thread(uint64_t thread_state) {
  const uint32_t thread = thread_of(thread_state);
  const char state = thread ? state_of(thread) : 0;
  if (!state) return false;  // not one of its threads (any more)
  const uint64_t time = now_ns();
  Chain chain = {places_, 0, false, 0};
  if (!take_chain(thread_state, &chain)) {
    ++statistics_[kTorn];
    return false;
  }
  const uint32_t stack = chain.count ? define_chain(chain) : 0;
  if (chain.count && !stack) {
    ++statistics_[kTorn];
    return false;
  }
  const Sample row = {time,
                      thread,
                      stack,
                      static_cast<uint8_t>(state),
                      holder_ == thread_state,
                      0,
                      static_cast<uint32_t>(pid_)};
  if (!write(row)) return false;
  ++statistics_[kSamples];
  return true;
}

// Every code object's page with one call, and one more for their strings if fingerprints need them.
void Sampler::fetch_code(uint64_t frame) {
  uint64_t codes[kMostDepth] = {}, texts[3 * 128] = {};
  uint32_t count = 0;
  for (uint32_t i = 0; frame && i < depth_ + 8 && count < kMostDepth; ++i) {
    if (!load(memory_, frame + o_.frame_code, &codes[count]) ||
        !load(memory_, frame + o_.frame_previous, &frame))
      break;
    codes[count++] &= ~uint64_t{7};
  }
  memory_.fetch(codes, count, 8);
  if (o_.versions_are_unique()) return;
  uint32_t wanted = 0;
  for (uint32_t i = 0; i < count && wanted + 3 <= 3 * 128; ++i) {
    for (uint32_t field : {o_.code_qualname, o_.code_filename, o_.code_linetable}) {
      if (load(memory_, codes[i] + field, &texts[wanted])) ++wanted;
    }
  }
  memory_.fetch(texts, wanted, 64);
}

// A frame whose instruction is not in its own code was half written when we read it.
bool Sampler::inside_code(const Chain& chain) {
  for (uint32_t i = 0; i < chain.count; ++i) {
    const Place& place = chain.places[i];
    uint64_t type, units = 0, bytes = place.code, offset = 0;
    if (!load(memory_, place.code + o_.object_type, &type) || type != python_.code_type) return false;
    if (o_.code_object && !load(memory_, place.code + o_.code_object, &bytes)) return false;
    if (!load(memory_, bytes + o_.object_size, &units)) return false;
    if (!o_.has_locations()) {
      const int32_t last = static_cast<int32_t>(place.instruction);
      if (last < -1 || last * int64_t{2} >= static_cast<int64_t>(units)) return false;
    } else if (!instruction_offset(o_, memory_, place, &offset) || (offset + 2) / 2 > units + 1) {
      return false;
    }
  }
  return true;
}

bool Sampler::walk_once(uint64_t thread_state, Chain* chain, bool* same_frame) {
  uint64_t frame, after;
  if (!innermost_frame(o_, memory_, thread_state, &frame)) return false;
  fetch_code(frame);
  if (!walk_frames(o_, memory_, frame, depth_, true, chain) || !inside_code(*chain)) return false;
  struct Uncached {
    RemoteMemory* memory;
    bool copy(uint64_t address, void* to, size_t bytes) { return memory->copy_now(address, to, bytes); }
  } uncached = {&memory_};
  *same_frame = innermost_frame(o_, uncached, thread_state, &after) && after == frame;
  return true;
}

bool Sampler::take_chain(uint64_t thread_state, Chain* chain) {
  bool valid = false, same_frame = false;
  for (int attempt = 0; attempt < kAttempts && !(valid && same_frame); ++attempt) {
    if (attempt) memory_.forget();
    valid = walk_once(thread_state, chain, &same_frame);
  }
  // A busy thread is in another function every few nanoseconds; a chain that makes sense throughout is still
  // its.
  if (valid && !same_frame) ++statistics_[kMoved];
  return valid;
}

uint32_t Sampler::define_chain(const Chain& chain) {
  uint32_t stack = 0;
  for (uint32_t i = chain.count; i-- > 0;) {
    const uint32_t frame = frame_ids_.get(o_, memory_, chain.places[i], python_.code_type);
    stack = frame ? define_stack(stack, frame, kStackRemote, chain.cut) : 0;
    if (!stack) return 0;
  }
  return stack;
}

uint32_t Sampler::thread_of(uint64_t thread_state) {
  uint64_t thread = 0;
  if (o_.thread_native)
    return load(memory_, thread_state + o_.thread_native, &thread) ? static_cast<uint32_t>(thread) : 0;
  return load(memory_, thread_state + o_.thread_ident, &thread) ? thread_from_pthread(thread) : 0;
}

// Before 3.11, Python only knows the pthread_t, the address of a descriptor in which the C library keeps the
// id. Its offset is derived from the main thread, whose id is the process's.
uint32_t Sampler::thread_from_pthread(uint64_t pthread) {
  if (!thread_id_offset_ && !find_thread_id_offset(pthread)) return 0;
  uint32_t thread = 0;
  return load(memory_, pthread + thread_id_offset_, &thread) ? thread : 0;
}

bool Sampler::find_thread_id_offset(uint64_t pthread) {
  constexpr uint32_t kDescriptorBytes = 2048;
  uint8_t descriptor[kDescriptorBytes];
  if (!memory_.copy_now(pthread, descriptor, sizeof(descriptor))) return false;
  for (uint32_t at = 0; at + 4 <= kDescriptorBytes; at += 4) {
    uint32_t value;
    memcpy(&value, descriptor + at, sizeof(value));
    if (value == static_cast<uint32_t>(pid_)) {
      thread_id_offset_ = at;
      return true;
    }
  }
  return false;
}

// R, S, D, T, Z …; 0 if the process has no such thread.
char Sampler::state_of(uint32_t thread) {
  auto known = state_files_.find(thread);
  if (known == state_files_.end()) {
    if (state_files_.size() >= kMostStateFiles) {
      for (const auto& file : state_files_) close(file.second);
      state_files_.clear();
    }
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%u/stat", pid_, thread);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    known = state_files_.emplace(thread, file).first;
  }
  char text[256];
  const ssize_t length = pread(known->second, text, sizeof(text) - 1, 0);
  if (length <= 0) {  // it exited
    close(known->second);
    state_files_.erase(known);
    return 0;
  }
  text[length] = 0;
  const char* end = strrchr(text, ')');  // the thread's name may hold anything, brackets too
  return end && end[1] == ' ' ? end[2] : 0;
}

}  // namespace

}  // namespace warpsight

// A sampler of the process's Python threads, or NULL if it has no readable interpreter (yet).
WARPSIGHT_EXPORT void* ws_sampler_open(int pid) {
  warpsight::RemoteMemory memory(pid);
  warpsight::RemotePython python = {};
  if (!warpsight::find_remote_python(pid, &memory, &python)) return nullptr;
  return new warpsight::Sampler(pid, memory, python);
}

// Writes one Sample row for each thread with a Python state; how many. -ESRCH when the process is gone,
// -EAGAIN when its interpreter is not where it was (exec): close and open again.
WARPSIGHT_EXPORT int ws_sampler_sample(void* sampler) {
  return static_cast<warpsight::Sampler*>(sampler)->sample();
}

// 0 samples written, 1 threads left out because their stack was changing, 2 samples taken although the thread
// moved on.
WARPSIGHT_EXPORT uint64_t ws_sampler_statistic(void* sampler, int which) {
  return static_cast<warpsight::Sampler*>(sampler)->statistic(which);
}

WARPSIGHT_EXPORT void ws_sampler_close(void* sampler) { delete static_cast<warpsight::Sampler*>(sampler); }
