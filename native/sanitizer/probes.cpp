#include "sanitizer/probes.h"

#include <algorithm>

namespace warpsight {
namespace {

constexpr uint64_t kSmallest = 4096;  // so that launches of about one size can use each other's memory

uint64_t rounded(uint64_t bytes) {
  uint64_t size = kSmallest;
  while (size < bytes) size *= 2;
  return size;
}

}  // namespace

std::vector<uint64_t> Probes::sizes(const Sanitizer_LaunchData& data) const {
  const uint64_t grid = 1ull * data.gridDim_x * data.gridDim_y * data.gridDim_z;
  const uint64_t threads = 1ull * data.blockDim_x * data.blockDim_y * data.blockDim_z;
  const uint64_t high = std::min(grid, request_.blocks.high);
  const uint64_t blocks = high - std::min(high, request_.blocks.low);
  const uint64_t owners[] = {1, blocks, blocks * ((threads + 31) / 32), blocks * threads};
  std::vector<uint64_t> found;
  for (const auto& map : request_.maps) found.push_back(1 + owners[map.scope & 3] * map.words);
  return found;
}

char* Probes::memory(uint64_t bytes, SanitizerResult* result) {
  const auto known = free_.find(bytes);
  if (known != free_.end()) {
    char* const found = known->second;
    free_.erase(known);
    return found;
  }
  if (allocated_ + bytes > request_.map_bytes) return nullptr;
  void* made = nullptr;
  *result = functions_.alloc(context_, &made, bytes);
  if (*result == SANITIZER_SUCCESS) allocated_ += bytes;
  return static_cast<char*>(made);
}

SanitizerResult Probes::describe(const Sanitizer_LaunchData& data, uint32_t number, CUstream stream,
                                 Sanitizer_StreamHandle handle, WsProbe description, const WsProbe** probe) {
  Launch launch;
  launch.number = number;
  launch.stream = stream;
  launch.handle = handle;
  launch.words = sizes(data);
  uint64_t words = sizeof(WsProbe) / sizeof(uint64_t);
  for (const uint64_t own : launch.words) words += std::min<uint64_t>(own, 1ull << 40);
  launch.bytes = words * sizeof(uint64_t);
  if (launch.bytes > request_.map_bytes) return SANITIZER_SUCCESS;
  std::lock_guard<std::mutex> lock(mutex_);
  SanitizerResult result = SANITIZER_SUCCESS;
  launch.memory = memory(rounded(launch.bytes), &result);
  if (launch.memory == nullptr) return result;
  auto* at = reinterpret_cast<unsigned long long*>(launch.memory + sizeof(WsProbe));
  for (size_t i = 0; i < launch.words.size() && i < WS_MAPS; at += launch.words[i++])
    description.maps[i] = at;
  result = functions_.memset(launch.memory, 0, launch.bytes, handle);
  if (result == SANITIZER_SUCCESS)
    result = functions_.copy_to_device(launch.memory, &description, sizeof description, handle);
  if (result != SANITIZER_SUCCESS) return result;
  *probe = reinterpret_cast<const WsProbe*>(launch.memory);
  running_.push_back(std::move(launch));
  return SANITIZER_SUCCESS;
}

void Probes::read(const Launch& launch, EventFile* file) {
  std::vector<uint64_t> words(launch.bytes / sizeof(uint64_t));
  const SanitizerResult result =
      functions_.copy_to_host(words.data(), launch.memory, launch.bytes, launch.handle);
  if (result != SANITIZER_SUCCESS) {
    const char* text = nullptr;
    functions_.result_string(result, &text);
    file->lose(std::string("the maps of a launch could not be read: ") + (text != nullptr ? text : "error"),
               1);
    return;
  }
  size_t at = sizeof(WsProbe) / sizeof(uint64_t);
  for (uint32_t map = 0; map < launch.words.size(); at += launch.words[map++])
    if (request_.maps[map].kept) file->add_map(launch.number, map, words.data() + at, launch.words[map]);
}

void Probes::collect(CUstream stream, bool all, EventFile* file) {
  std::vector<Launch> done;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto rest = std::stable_partition(running_.begin(), running_.end(), [&](const Launch& launch) {
      return !all && launch.stream != stream;
    });
    done.assign(std::make_move_iterator(rest), std::make_move_iterator(running_.end()));
    running_.erase(rest, running_.end());
  }
  for (const Launch& launch : done) read(launch, file);
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Launch& launch : done) free_.emplace(rounded(launch.bytes), launch.memory);
}

}  // namespace warpsight
