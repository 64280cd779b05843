#include "rocm/launch_arguments.h"

#include <cstring>

#include "rocm/abi.h"

namespace warpsight::rocm {
namespace {

// A launch configuration, in memory of the caller: grid, block, shared memory, stream.
constexpr size_t kConfigBlock = 12, kConfigShared = 24, kConfigStream = 32;

template <class T>
T at(const void* place, size_t offset) {
  T value;
  memcpy(&value, static_cast<const char*>(place) + offset, sizeof value);
  return value;
}

void fill(Shape* shape, const Dim3& grid, const Dim3& block, uint32_t shared) {
  shape->grid_x = static_cast<int32_t>(grid.x);
  shape->grid_y = static_cast<int32_t>(grid.y);
  shape->grid_z = static_cast<int32_t>(grid.z);
  shape->block_x = static_cast<int32_t>(block.x);
  shape->block_y = static_cast<int32_t>(block.y);
  shape->block_z = static_cast<int32_t>(block.z);
  shape->shared_dynamic = shared;
}

uint32_t groups(uint32_t items, uint32_t of) { return of != 0 ? (items + of - 1) / of : items; }

uint64_t bytes_of(const ApiRule& rule, const void* arguments) {
  const uint64_t first = at<uint64_t>(arguments, rule.bytes_offset);
  switch (rule.bytes) {
    case BytesAt::bytes:
      return first;
    case BytesAt::halves:
      return first * 2;
    case BytesAt::words:
      return first * 4;
    case BytesAt::area:
      return first * at<uint64_t>(arguments, rule.bytes_offset + sizeof(uint64_t));
    default:
      return 0;
  }
}

}  // namespace

bool stream_argument(const ApiRule& rule, const void* arguments, uint64_t* stream) {
  if (rule.form == LaunchForm::config) {
    const void* config = at<const void*>(arguments, 0);
    *stream = config != nullptr ? at<uint64_t>(config, kConfigStream) : 0;
    return config != nullptr;
  }
  if (rule.stream_offset != kNowhere) {
    *stream = at<uint64_t>(arguments, rule.stream_offset);
    return true;
  }
  *stream = 0;  // calls without a stream work on the default one
  return rule.group == CallGroup::copy || rule.group == CallGroup::set || rule.group == CallGroup::launch;
}

CallArguments call_arguments(const ApiRule& rule, const void* arguments, bool done) {
  CallArguments found = {};
  if (rule.object != ObjectAt::nowhere) found.object = at<uint64_t>(arguments, rule.object_offset);
  if (rule.object == ObjectAt::pointed) {
    const auto* place = reinterpret_cast<const uint64_t*>(found.object);
    found.object = done && place != nullptr ? *place : 0;
  }
  found.bytes = bytes_of(rule, arguments);
  if (rule.source_offset != kNowhere) found.source = at<uint64_t>(arguments, rule.source_offset);
  return found;
}

bool launch_shape(const ApiRule& rule, const void* arguments, Shape* shape) {
  switch (rule.form) {
    case LaunchForm::dimensions:
      fill(shape, at<Dim3>(arguments, 8), at<Dim3>(arguments, 20), at<uint32_t>(arguments, 40));
      return true;
    case LaunchForm::groups:
      fill(shape, at<Dim3>(arguments, 8), at<Dim3>(arguments, 20), at<uint32_t>(arguments, 32));
      return true;
    case LaunchForm::items: {
      const auto items = at<Dim3>(arguments, 8), block = at<Dim3>(arguments, 20);
      const Dim3 grid = {groups(items.x, block.x), groups(items.y, block.y), groups(items.z, block.z)};
      fill(shape, grid, block, at<uint32_t>(arguments, 32));
      return true;
    }
    case LaunchForm::config: {
      const void* config = at<const void*>(arguments, 0);
      if (config == nullptr) return false;
      fill(shape, at<Dim3>(config, 0), at<Dim3>(config, kConfigBlock), at<uint32_t>(config, kConfigShared));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace warpsight::rocm
