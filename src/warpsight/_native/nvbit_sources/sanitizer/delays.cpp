#include "sanitizer/delays.h"

#include <algorithm>

namespace warpsight {
namespace {

constexpr uint64_t kMostCounters = 8ull << 20;  // of a stream
constexpr uint64_t kFewestCounters = 1ull << 14;

}  // namespace

void Delays::place(CUmodule module, uint64_t pc, uint32_t place, const std::vector<DelayPoint>& points) {
  for (const DelayPoint& point : points) {
    if (point.kind == kHostLaunch) continue;
    // Steps of a schedule by priorities are counted over all points of a warp.
    const uint32_t counted = plan_.rule.depth > 0 ? 0 : place++;
    placed_[module].push_back({static_cast<uint32_t>(pc + point.pc), point.kind, point.number, counted});
  }
  places_ = std::max({places_, place, 1u});
  stale_ = true;
}

void Delays::change() {
  placed_.clear();
  current_ ^= 1;
  tables_[current_].unread = true;
  stale_ = true;
}

void Delays::forget(CUmodule module) { stale_ |= placed_.erase(module) != 0; }

bool Delays::stream_waits(CUstream stream) {
  const auto known = streams_.try_emplace(stream);
  if (known.second) known.first->second.number = static_cast<uint32_t>(streams_.size()) - 1;
  return plan_.streams.empty() || plan_.streams.count(known.first->second.number) != 0;
}

// Room for the points and blocks of the plan.
int Delays::make_tables() {
  Tables& tables = tables_[current_];
  const size_t wanted = std::max<size_t>(points_.size(), 1), blocks = plan_.blocks.size();
  void* made = nullptr;
  int result = 0;
  if (!tables.unread || tables.point_room < wanted) {
    result = memory_.alloc(&made, wanted * sizeof(WsPoint));
    if (result != 0) return result;
    tables.points = static_cast<WsPoint*>(made);
    tables.point_room = wanted;
  }
  if (tables.block_room < blocks) {  // which change with the plan alone
    result = memory_.alloc(&made, blocks * sizeof(WsBlocks));
    if (result != 0) return result;
    tables.blocks = static_cast<WsBlocks*>(made);
    tables.block_room = blocks;
  }
  tables.unread = false;
  return 0;
}

int Delays::upload(void* handle) {
  int result = 0;
  if (stale_) {
    points_.clear();
    for (const auto& [module, points] : placed_) points_.insert(points_.end(), points.begin(), points.end());
    std::sort(points_.begin(), points_.end(), [](const WsPoint& a, const WsPoint& b) {
      return std::make_pair(a.pc, a.kind) < std::make_pair(b.pc, b.kind);
    });
    result = make_tables();
    if (result != 0) return result;
    for (auto& known : streams_) known.second.told = false;
    stale_ = false;
  }
  const Tables& tables = tables_[current_];
  if (!points_.empty())
    result = memory_.copy(tables.points, points_.data(), points_.size() * sizeof(WsPoint), handle);
  if (result == 0 && !plan_.blocks.empty())
    result = memory_.copy(tables.blocks, plan_.blocks.data(), plan_.blocks.size() * sizeof(WsBlocks), handle);
  return result;
}

// More counters for a stream, all zero before what follows in it.
int Delays::grow(Stream* stream, void* handle, uint64_t counters) {
  uint64_t size = kFewestCounters;
  while (size < counters && size < kMostCounters) size *= 2;
  void* made = nullptr;
  int result = memory_.alloc(&made, size * sizeof(unsigned long long));
  if (result == 0) result = memory_.clear(made, size * sizeof(unsigned long long), handle);
  if (result != 0) return result;
  stream->occurrences = static_cast<unsigned long long*>(made);
  stream->size = size;
  return result;
}

int Delays::describe(CUstream stream, void* handle, uint64_t warps, WsLaunch* launch) {
  Stream& own = streams_[stream];
  if (stale_ || !own.told) {
    const int result = upload(handle);
    if (result != 0) return result;
    own.told = true;
  }
  const uint64_t counters = warps * places_;
  if (own.occurrences == nullptr || (own.size < counters && own.size < kMostCounters)) {
    const int result = grow(&own, handle, counters);
    if (result != 0) return result;
  }
  launch->rule = plan_.rule;
  launch->warps = plan_.warps;
  launch->ranks = plan_.ranks;
  launch->points = tables_[current_].points;
  launch->point_count = static_cast<uint32_t>(points_.size());
  launch->blocks = tables_[current_].blocks;
  launch->block_count = static_cast<uint32_t>(plan_.blocks.size());
  launch->occurrences = own.occurrences;
  launch->occurrence_size = own.size;
  launch->places = places_;
  return 0;
}

}  // namespace warpsight
