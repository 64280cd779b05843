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

void Delays::forget(CUmodule module) { stale_ |= placed_.erase(module) != 0; }

bool Delays::stream_waits(CUstream stream) {
  const auto known = streams_.try_emplace(stream);
  if (known.second) known.first->second.number = static_cast<uint32_t>(streams_.size()) - 1;
  return plan_.streams.empty() || plan_.streams.count(known.first->second.number) != 0;
}

// Kernels that run may read the tables before, so these stay.
int Delays::upload(void* handle) {
  int result = 0;
  if (stale_) {
    points_.clear();
    for (const auto& [module, points] : placed_) points_.insert(points_.end(), points.begin(), points.end());
    std::sort(points_.begin(), points_.end(), [](const WsPoint& a, const WsPoint& b) {
      return std::make_pair(a.pc, a.kind) < std::make_pair(b.pc, b.kind);
    });
    void* table = nullptr;
    result = memory_.alloc(&table, std::max<size_t>(points_.size(), 1) * sizeof(WsPoint));
    if (result != 0) return result;
    device_points_ = static_cast<WsPoint*>(table);
    if (device_blocks_ == nullptr && !plan_.blocks.empty()) {
      result = memory_.alloc(&table, plan_.blocks.size() * sizeof(WsBlocks));
      if (result != 0) return result;
      device_blocks_ = static_cast<WsBlocks*>(table);
    }
    for (auto& known : streams_) known.second.told = false;
    stale_ = false;
  }
  if (!points_.empty())
    result = memory_.copy(device_points_, points_.data(), points_.size() * sizeof(WsPoint), handle);
  if (result == 0 && device_blocks_ != nullptr)
    result =
        memory_.copy(device_blocks_, plan_.blocks.data(), plan_.blocks.size() * sizeof(WsBlocks), handle);
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
  launch->points = device_points_;
  launch->point_count = static_cast<uint32_t>(points_.size());
  launch->blocks = device_blocks_;
  launch->block_count = static_cast<uint32_t>(plan_.blocks.size());
  launch->occurrences = own.occurrences;
  launch->occurrence_size = own.size;
  launch->places = places_;
  return 0;
}

}  // namespace warpsight
