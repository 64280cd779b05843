// Which of several launches or ranges is kept.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "capsule/recorder.h"

namespace warpsight {

bool CapsuleRecorder::counts(const Work& work, const Kernel* kernel) {
  if (!request_.range.empty() || !armed_.load(std::memory_order_relaxed)) return false;
  const bool matches = work.kind == WorkKind::launch
                           ? kernel != nullptr && kernel->wanted
                           : work.kind == WorkKind::graph && graphs_.wanted(work.graph);
  return matches && is_chosen();
}

CapsuleRecorder::Choice CapsuleRecorder::next_choice() {
  Choice made;
  made.number = request_.first + chosen_++;
  made.wanted = made.number < request_.end;
  made.final = made.number + 1 == request_.end;
  made.last = made.final || (made.wanted && request_.keep != Keep::all);
  return made;
}

void CapsuleRecorder::keep_range() {
  slowest_extents_.swap(extents_);  // drop the data of the slowest one so far
  slowest_ns_ = std::max<uint64_t>(1, device_ns_);
  log_writers();
  log_end_ = output_.log_end();
  forget_range();
}

void CapsuleRecorder::forget_range() {
  output_.cut_log(log_end_);
  output_.drop(extents_);
  extents_.clear(), held_.clear(), globals_.clear(), fresh_globals_.clear(), modules_seen_.clear();
  functions_.clear(), streams_.clear(), events_.clear(), incomplete_.clear();
  graph_count_ = 0, device_ns_ = 0;
  state_.store(State::waiting, std::memory_order_release);
}

void CapsuleRecorder::keep_unfinished(const std::string& what) {
  output_.log(pending_);
  pending_.clear();
  incomplete(what);
  for (const auto& text : incomplete_) output_.log(Json("incomplete").text("what", text).done());
  finish();
}

bool CapsuleRecorder::await(CUresult* result) {
  constexpr uint64_t kSpinNs = 2'000'000;
  const uint64_t begin = time_ns();
  while (*result == CUDA_SUCCESS) {
    *result = cu().cuEventQuery(clock_[1]);
    if (*result != CUDA_ERROR_NOT_READY) break;
    *result = CUDA_SUCCESS;
    const uint64_t waited = time_ns() - begin;
    if (waited > request_.patience_ns) {
      char seconds[32];
      snprintf(seconds, sizeof seconds, "%g", static_cast<double>(request_.patience_ns) / 1e9);
      hung_ = true;
      keep_unfinished("the work did not end within " + std::string(seconds) + " s: it may hang again");
      return false;
    }
    if (waited > kSpinNs) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (*result == CUDA_SUCCESS || request_.keep != Keep::faulted) return true;
  keep_unfinished("the work failed with the driver's error " + std::to_string(*result) +
                  ": it fails again in a replay");
  return false;
}

void CapsuleRecorder::finish() {
  const bool found = state_.exchange(State::done) == State::open || slowest_ns_ != 0;
  modules_.stop();
  follow(Followed::nothing);
  std::string names;
  for (const auto& name : modules_.names()) names += (names.empty() ? "" : ",") + quoted(name);
  output_.log(
      found ? Json("end").number("held_ns", held_ns_).done()
            : Json("nothing").number("matched", matched_.load()).raw("kernels", "[" + names + "]").done());
  output_.flush();
  snapshots_.end(hung_, [this] { log_writers(); });
}

}  // namespace warpsight
