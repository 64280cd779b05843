#include "replay/timing.h"

#include <time.h>

namespace warpsight::replay {
namespace {

// The driver's queue holds about a thousand; behind a closed gate one more would wait for ever.
constexpr size_t kMostGated = 400;

uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

void wait_until(uint64_t time_ns) {
  timespec until = {};
  until.tv_sec = static_cast<time_t>(time_ns / 1000000000u);
  until.tv_nsec = static_cast<long>(time_ns % 1000000000u);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace

bool Timing::prepare() {
  auto make = [this](CUevent* event, unsigned flags) {
    return report_->check(driver_, driver_.event_create(event, flags), "making an event");
  };
  if (!make(&begin_, CU_EVENT_DEFAULT) || !make(&end_, CU_EVENT_DEFAULT)) return false;
  joins_.resize(program_.streams().size());
  for (CUevent& event : joins_)
    if (!make(&event, CU_EVENT_DISABLE_TIMING)) return false;
  if (script_.has(kTimeOperations) || script_.header->timed_runs != 0) {
    before_.resize(program_.operations());
    after_.resize(program_.operations());
    for (size_t i = 0; i < program_.operations(); ++i)
      if (!make(&before_[i], CU_EVENT_DEFAULT) || !make(&after_[i], CU_EVENT_DEFAULT)) return false;
  }
  if (!script_.has(kGate)) return true;
  void* word = nullptr;
  if (!report_->check(driver_, driver_.allocate_host(&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP), "the gate") ||
      !report_->check(driver_, driver_.host_pointer(&gate_address_, word, 0), "the gate"))
    return false;
  gate_ = static_cast<volatile unsigned*>(word);
  return true;
}

bool Timing::gated(bool timed) const {
  const size_t count = program_.operations() - script_.header->first;
  return gate_ != nullptr && count * (timed ? 3 : 1) <= kMostGated;
}

// Work left behind a closed gate by a faulting kernel or an error would wait forever.
void Timing::open_gate() {
  if (gate_ == nullptr) return;
  __sync_synchronize();
  *gate_ = 1;
}

// All streams begin after the start event, which is in the first.
bool Timing::begin_together() {
  const auto& streams = program_.streams();
  if (!report_->check(driver_, driver_.event_record(begin_, streams[0]), "timing") ||
      !report_->check(driver_, driver_.event_record(joins_[0], streams[0]), "timing"))
    return false;
  for (size_t i = 1; i < streams.size(); ++i)
    if (!report_->check(driver_, driver_.stream_wait_event(streams[i], joins_[0], 0), "timing")) return false;
  return true;
}

bool Timing::end() {
  const auto& streams = program_.streams();
  for (size_t i = 1; i < streams.size(); ++i) {
    if (!report_->check(driver_, driver_.event_record(joins_[i], streams[i]), "timing") ||
        !report_->check(driver_, driver_.stream_wait_event(streams[0], joins_[i], 0), "timing"))
      return false;
  }
  return report_->check(driver_, driver_.event_record(end_, streams[0]), "timing");
}

bool Timing::lead_in(unsigned variant) {
  for (size_t i = 0; i < script_.header->first; ++i)
    if (!program_.issue(i, variant)) return false;
  return report_->check(driver_, driver_.context_wait(), "running the operations before the first");
}

bool Timing::issue_all(unsigned variant, bool timed) {
  const size_t first = script_.header->first;
  const bool original = script_.has(kOriginalTiming) && program_.operations() > first;
  const uint64_t start = now_ns() - (original ? script_.operations[first].issued_ns : 0);
  issued_.clear();
  for (size_t i = first; i < program_.operations(); ++i) {
    if (original) wait_until(start + script_.operations[i].issued_ns);
    const CUstream stream = program_.stream(i);
    issued_.push_back(now_ns() - start);
    if (timed && !report_->check(driver_, driver_.event_record(before_[i], stream), "timing")) return false;
    if (!program_.issue(i, variant)) return false;
    if (timed && !report_->check(driver_, driver_.event_record(after_[i], stream), "timing")) return false;
  }
  issued_.push_back(now_ns() - start);
  return true;
}

bool Timing::capture(unsigned variant) {
  CUgraph graph = nullptr;
  const CUstream stream = program_.streams()[0];
  if (!report_->check(driver_, driver_.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                      "making a graph"))
    return false;
  const auto& streams = program_.streams();
  bool good = report_->check(driver_, driver_.event_record(joins_[0], stream), "making a graph");
  for (size_t i = 1; good && i < streams.size(); ++i)
    good = report_->check(driver_, driver_.stream_wait_event(streams[i], joins_[0], 0), "making a graph");
  good = good && issue_all(variant, false);
  for (size_t i = 1; good && i < streams.size(); ++i)
    good = report_->check(driver_, driver_.event_record(joins_[i], streams[i]), "making a graph") &&
           report_->check(driver_, driver_.stream_wait_event(stream, joins_[i], 0), "making a graph");
  return good && report_->check(driver_, driver_.end_capture(stream, &graph), "making a graph") &&
         report_->check(driver_, driver_.instantiate(&graphs_[variant], graph, 0), "making a graph");
}

bool Timing::run_whole(int run, unsigned variant) {
  if (!lead_in(variant)) return false;
  const bool graph = script_.has(kGraph);
  if (graph && graphs_[variant] == nullptr && !capture(variant)) return false;
  const CUstream stream = program_.streams()[0];
  const bool gate = !graph && gated(false);
  if (gate) {
    *gate_ = 0;
    if (!report_->check(driver_,
                        driver_.stream_wait_value(stream, gate_address_, 1, CU_STREAM_WAIT_VALUE_GEQ),
                        "the gate"))
      return false;
  }
  const bool issued =
      begin_together() &&
      (graph ? report_->check(driver_, driver_.launch_graph(graphs_[variant], stream), "launching the graph")
             : issue_all(variant, false)) &&
      end();
  open_gate();
  float milliseconds = 0;
  if (!issued || !report_->check(driver_, driver_.context_wait(), "running the operations") ||
      !report_->check(driver_, driver_.event_elapsed(&milliseconds, begin_, end_), "timing"))
    return false;
  report_->line("total %d %u %.6f", run, variant, static_cast<double>(milliseconds));
  if (script_.has(kTellIssued) && !graph && variant == 0 &&
      static_cast<uint32_t>(run) + 1 == script_.header->runs)
    for (const uint64_t ns : issued_) report_->line("issued %llu", static_cast<unsigned long long>(ns));
  return true;
}

bool Timing::run_timed(int run, unsigned variant) {
  if (!lead_in(variant)) return false;
  const bool gate = gated(true);
  if (gate) {
    *gate_ = 0;
    if (!report_->check(
            driver_,
            driver_.stream_wait_value(program_.streams()[0], gate_address_, 1, CU_STREAM_WAIT_VALUE_GEQ),
            "the gate"))
      return false;
  }
  const bool issued = begin_together() && issue_all(variant, true);
  open_gate();
  if (!issued || !report_->check(driver_, driver_.context_wait(), "running the operations")) return false;
  for (size_t i = script_.header->first; i < program_.operations(); ++i) {
    float from = 0, to = 0;
    if (!report_->check(driver_, driver_.event_elapsed(&from, begin_, before_[i]), "timing") ||
        !report_->check(driver_, driver_.event_elapsed(&to, begin_, after_[i]), "timing"))
      return false;
    report_->line("time %d %u %zu %.6f %.6f", run, variant, i, static_cast<double>(from),
                  static_cast<double>(to));
  }
  return true;
}

}  // namespace warpsight::replay
