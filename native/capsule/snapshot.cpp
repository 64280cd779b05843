#include "capsule/snapshot.h"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "capsule/driver.h"
#include "runtime/own_signals.h"

namespace warpsight {
namespace {

constexpr uint64_t kPart = 4u << 20;          // bytes of one transfer to the host
constexpr uint64_t kHostPart = 1u << 20;      // of one write of the host's memory
constexpr uint64_t kLeftFree = 512ull << 20;  // of the GPU's memory, at least, for the program
constexpr uint64_t kRoom = 64u << 20;         // of the GPU's memory that is made for copies at once, at least
constexpr uint64_t kLookedAt = 1ull << 30;  // more of the program's, after which the GPU's room is looked at
constexpr unsigned kHoldWorkers = 8, kLaterWorkers = 2;
constexpr uint64_t kSmall = 2u << 20;  // cheaper than pinning memory for its transfer

uint64_t up(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

uint64_t left_free(uint64_t all) { return std::max<uint64_t>(kLeftFree, all / 16); }

std::vector<Piece> parts_of(const std::vector<Piece>& pieces) {
  std::vector<Piece> parts;
  for (const Piece& piece : pieces) {
    const uint64_t most = piece.host ? kHostPart : kPart;
    for (uint64_t at = 0; at < piece.size; at += most)
      parts.push_back(
          {piece.address + at, std::min(most, piece.size - at), piece.offset + at, piece.host, piece.module});
  }
  return parts;
}

}  // namespace

std::vector<std::vector<Piece>> runs_of(std::vector<Piece> pieces) {
  constexpr uint64_t kPage = 4096;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& one, const Piece& other) { return one.address < other.address; });
  std::vector<std::vector<Piece>> runs;
  for (const Piece& piece : pieces) {
    const Piece* const last = runs.empty() ? nullptr : &runs.back().back();
    const bool near = last != nullptr && piece.module >= 0 && piece.module == last->module &&
                      piece.address >= last->end() && piece.address / kPage <= (last->end() - 1) / kPage + 1;
    if (!near) runs.emplace_back();
    runs.back().push_back(piece);
  }
  return runs;
}

namespace {

// One thread's way from the GPU to `to`, or to the output where that is null: a stream and a pinned buffer,
// made for the first part of the GPU's memory.
class Lane {
 public:
  Lane(CUcontext context, Output* output, char* to) : context_(context), output_(output), to_(to) {}
  // With a stream and a buffer that outlive it.
  Lane(CUcontext context, CUstream stream, void* buffer, Output* output, char* to)
      : context_(context),
        output_(output),
        to_(to),
        result_(cu().cuCtxSetCurrent(context)),
        stream_(stream),
        buffer_(buffer),
        owned_(false) {}
  ~Lane() {
    if (owned_ && buffer_ != nullptr) cu().cuMemFreeHost(buffer_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  std::string move(const Piece& part) {
    const void* bytes = reinterpret_cast<const void*>(part.address);
    if (!part.host) {
      if (buffer_ == nullptr && result_ == CUDA_SUCCESS) make();
      if (result_ == CUDA_SUCCESS) result_ = cu().device_to_host(buffer_, part.address, part.size, stream_);
      if (result_ == CUDA_SUCCESS) result_ = cu().cuStreamSynchronize(stream_);
      if (result_ != CUDA_SUCCESS) return failure("copying memory to the host", result_);
      bytes = buffer_;
    }
    if (to_ != nullptr) return memcpy(to_ + part.offset, bytes, part.size), "";
    return output_->write(part.offset, bytes, part.size) ? "" : "the contents could not be written";
  }

 private:
  void make() {
    result_ = cu().cuCtxSetCurrent(context_);
    if (result_ == CUDA_SUCCESS) result_ = cu().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    if (result_ == CUDA_SUCCESS) result_ = cu().cuMemHostAlloc(&buffer_, kPart, 0);
  }

  const CUcontext context_;
  Output* const output_;
  char* const to_;
  CUresult result_ = CUDA_SUCCESS;
  CUstream stream_ = nullptr;
  void* buffer_ = nullptr;
  const bool owned_ = true;
};

}  // namespace

void Snapshots::prepare(CUcontext context) {
  OwnCalls own;
  if (!later_ || staging_.buffer != nullptr) return;
  void* buffer = nullptr;
  std::vector<CUstream> streams(kHoldWorkers);
  CUresult result = CUDA_SUCCESS;
  for (CUstream& stream : streams)
    if (result == CUDA_SUCCESS) result = cu().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS && cu().cuMemHostAlloc(&buffer, kHoldWorkers * kPart, 0) == CUDA_SUCCESS)
    staging_ = {context, std::move(streams), static_cast<char*>(buffer)};
  room(context, kRoom);
  expecting_.store(staging_.context, std::memory_order_release);  // allocations of other threads are told
}

// Looked at again only after the program has got much more, as the driver is asked.
void Snapshots::expect(uint64_t bytes) {
  const CUcontext context = expecting_.load(std::memory_order_acquire);
  const uint64_t before = looked_at_.load(std::memory_order_relaxed);
  if (context == nullptr || bytes < before + std::min(before / 4, kLookedAt) + kRoom) return;
  looked_at_.store(bytes, std::memory_order_relaxed);
  OwnCalls own;
  const uint64_t most = host_room_.most();
  size_t free = 0, all = 0;
  if (shadow_allowed_ &&
      (cu().memory_info(&free, &all) != CUDA_SUCCESS || free >= left_free(all) + std::min(bytes, most / 2)))
    return;
  host_room_.expect(context, 2 * bytes);  // before and after
}

std::string Snapshots::take(CUcontext context, const std::vector<Piece>& pieces, const CUstream* before) {
  OwnCalls own;
  uint64_t bytes = 0;
  std::vector<Piece> now, later;  // bytes outside the shadow, and bytes in it
  for (const Piece& piece : pieces) {
    bytes += piece.size;
    (piece.host ? now : later).push_back(piece);
  }
  if (later.empty() || !shadow(context, later, before)) now = pieces;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += bytes;
  }
  std::string problem;
  return park(context, now, &problem) ? problem : copy(context, now, kHoldWorkers, nullptr);
}

// Faster than the output, of which one thread alone can write at a time: false when that is little anyway, or
// the host has not the memory.
bool Snapshots::park(CUcontext context, const std::vector<Piece>& pieces, std::string* problem) {
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += up(piece.size);
  if (!later_ || total <= kSmall) return false;
  Parked made = {host_room_.take(total), {}};
  if (made.memory == nullptr) return false;
  std::vector<Piece> within;
  uint64_t at = 0;
  for (const Piece& piece : pieces) {
    within.push_back(piece);
    within.back().offset = at;
    made.pieces.push_back({reinterpret_cast<uint64_t>(made.memory + at), piece.size, piece.offset, true});
    at += up(piece.size);
  }
  *problem = fill(context, within, made.memory);
  std::lock_guard<std::mutex> lock(mutex_);
  parked_.push_back(std::move(made));
  return true;
}

// Into pinned memory at once, into other by the pinned buffers.
std::string Snapshots::fill(CUcontext context, const std::vector<Piece>& pieces, char* to) {
  const bool ready = context != nullptr && staging_.context == context;
  std::vector<Piece> rest;
  CUresult result = CUDA_SUCCESS;
  for (Piece piece : pieces) {
    while (piece.size > 0) {
      const HostRoom::Stretch stretch = host_room_.stretch(to + piece.offset, piece.size);
      const Piece part = {piece.address, stretch.bytes, piece.offset, piece.host, piece.module};
      if (!ready || piece.host || !stretch.is_pinned)
        rest.push_back(part);
      else if (result == CUDA_SUCCESS)
        result = cu().device_to_host(to + part.offset, part.address, part.size, staging_.streams.front());
      piece.address += part.size, piece.offset += part.size, piece.size -= part.size;
    }
  }
  const std::string problem = rest.empty() ? "" : copy(context, rest, kHoldWorkers, nullptr, to);
  if (ready && result == CUDA_SUCCESS) result = cu().cuStreamSynchronize(staging_.streams.front());
  return result != CUDA_SUCCESS ? failure("copying memory to the host", result) : problem;
}

CUresult Snapshots::make_aside() {
  return aside_ != nullptr ? CUDA_SUCCESS : cu().cuStreamCreate(&aside_, CU_STREAM_NON_BLOCKING);
}

// No buffer is pinned or freed, as that may wait for the GPU.
std::string Snapshots::take_aside(CUcontext context, const std::vector<Piece>& pieces) {
  OwnCalls own;
  InContext here(context);
  const CUresult result = make_aside();
  if (result != CUDA_SUCCESS) return failure("making a stream for copies", result);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Piece& piece : pieces) bytes_ += piece.size;
  }
  return copy_small(parts_of(pieces), aside_);
}

std::string Snapshots::take_rows(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch,
                                 uint64_t offset) {
  std::vector<Piece> pieces;
  for (uint64_t i = 0; i < rows; ++i)
    pieces.push_back({address + i * pitch, bytes, offset + i * bytes, true});
  {
    std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += bytes * rows;
  }
  return copy(nullptr, pieces, kHoldWorkers, nullptr);
}

std::string Snapshots::copy(CUcontext context, const std::vector<Piece>& pieces, unsigned workers,
                            CUstream stream, char* to) {
  const std::vector<Piece> parts = parts_of(pieces);
  uint64_t total = 0;
  for (const Piece& part : parts) total += part.size;
  if (to == nullptr && total <= kSmall) return copy_small(parts, stream);
  std::atomic<size_t> next{0};  // the next part to be moved
  std::mutex mutex;             // protects `problem`
  std::string problem;
  const bool ready = context != nullptr && staging_.context == context;
  const auto work = [&](size_t worker) {
    OwnCalls own;
    Lane lane = ready
                    ? Lane(context, staging_.streams[worker], staging_.buffer + worker * kPart, &output_, to)
                    : Lane(context, &output_, to);
    for (size_t i = next++; i < parts.size(); i = next++) {
      const std::string wrong = lane.move(parts[i]);
      if (wrong.empty()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      problem = wrong;
      return;
    }
  };
  std::vector<std::thread> threads;
  const size_t count =
      std::min<size_t>({workers, parts.size(), std::max(1u, std::thread::hardware_concurrency())});
  {
    const StartingThread starting;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(work, i);
  }
  for (auto& thread : threads) thread.join();
  return problem;
}

std::string Snapshots::copy_small(const std::vector<Piece>& parts, CUstream stream) {
  std::vector<char> buffer;
  for (const Piece& part : parts) {
    const void* bytes = reinterpret_cast<const void*>(part.address);
    if (!part.host) {
      buffer.resize(part.size);
      CUresult result = cu().device_to_host(buffer.data(), part.address, part.size, stream);
      if (result == CUDA_SUCCESS) result = cu().cuStreamSynchronize(stream);
      if (result != CUDA_SUCCESS) return failure("copying memory to the host", result);
      bytes = buffer.data();
    }
    if (!output_.write(part.offset, bytes, part.size)) return "the contents could not be written";
  }
  return "";
}

// The last buffer if it has this much space left, or a new one; null if the GPU has none to spare.
Snapshots::Shadow* Snapshots::room(CUcontext context, uint64_t bytes) {
  if (!shadows_.empty()) {
    Shadow& last = shadows_.back();
    if (last.context == context && last.size - last.used >= bytes) return &last;
  }
  size_t free = 0, all = 0;
  if (!shadow_allowed_ || cu().memory_info(&free, &all) != CUDA_SUCCESS) return nullptr;
  const uint64_t left = left_free(all);
  const uint64_t size = free >= std::max(bytes, kRoom) + left ? std::max(bytes, kRoom) : bytes;
  Shadow made = {context, 0, size, 0, {}};
  if (free < size + left || cu().allocate(&made.memory, size) != CUDA_SUCCESS) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  shadows_.push_back(std::move(made));
  return &shadows_.back();
}

// At once, or piece by piece where the driver takes the run for several allocations.
CUresult Snapshots::copy_run(uint64_t to, const std::vector<Piece>& run, CUstream stream) {
  const uint64_t begin = run.front().address;
  CUresult result = cu().device_to_device(to, begin, run.back().end() - begin, stream);
  if (result == CUDA_SUCCESS || run.size() == 1) return result;
  result = CUDA_SUCCESS;
  for (const Piece& piece : run)
    if (result == CUDA_SUCCESS)
      result = cu().device_to_device(to + piece.address - begin, piece.address, piece.size, stream);
  return result;
}

bool Snapshots::shadow(CUcontext context, const std::vector<Piece>& pieces, const CUstream* before) {
  const std::vector<std::vector<Piece>> runs = runs_of(pieces);
  uint64_t total = 0;
  for (const auto& run : runs) total += up(run.back().end() - run.front().address);
  Shadow* const to = room(context, total);
  if (to == nullptr) return false;
  std::vector<Piece> copies;
  CUresult result = CUDA_SUCCESS;
  for (const auto& run : runs) {
    const uint64_t at = to->memory + to->used, begin = run.front().address;
    if (result == CUDA_SUCCESS) result = copy_run(at, run, before != nullptr ? *before : nullptr);
    for (const Piece& piece : run) copies.push_back({at + piece.address - begin, piece.size, piece.offset});
    to->used += up(run.back().end() - begin);
  }
  if (result == CUDA_SUCCESS && before == nullptr) result = cu().synchronize();
  if (result != CUDA_SUCCESS) return false;
  to->pieces.insert(to->pieces.end(), copies.begin(), copies.end());
  return true;
}

void Snapshots::drain(const std::function<void()>& before) {
  OwnCalls own;
  host_room_.stop(hung_);
  for (const Shadow& shadow : shadows_) {
    const std::string problem = write_out(shadow);
    if (failed_.empty()) failed_ = problem;
  }
  for (const Parked& parked : parked_) {
    const std::string problem = write_out(parked);
    if (failed_.empty()) failed_ = problem;
  }
  if (staging_.buffer != nullptr && !hung_) cu().cuMemFreeHost(staging_.buffer);
  staging_ = {};
  log_whole(before);
}

// While the program goes on: its null stream would order its other streams, and break a capture of theirs.
std::string Snapshots::write_out(const Shadow& shadow) {
  InContext here(shadow.context);
  std::string problem;
  if (staging_.context == shadow.context) {
    problem = move_staged(shadow.pieces);
  } else if (!shadow.pieces.empty()) {
    const CUresult result = make_aside();
    problem = result != CUDA_SUCCESS ? failure("making a stream for copies", result)
              : hung_                ? copy_small(parts_of(shadow.pieces), aside_)
                                     : copy(shadow.context, shadow.pieces, kLaterWorkers, aside_);
  }
  if (!hung_) cu().free(shadow.memory);
  return problem;
}

std::string Snapshots::move_staged(const std::vector<Piece>& pieces) {
  Lane lane(staging_.context, staging_.streams.front(), staging_.buffer, &output_, nullptr);
  for (const Piece& part : parts_of(pieces)) {
    const std::string problem = lane.move(part);
    if (!problem.empty()) return problem;
  }
  return "";
}

// Memory is given back as it is written, unless a thread that waits for work that never ends may use it yet.
std::string Snapshots::write_out(const Parked& parked) {
  constexpr uint64_t kPage = 4096;
  std::string problem;
  uint64_t given = reinterpret_cast<uint64_t>(parked.memory);
  const auto give = [this, &given](uint64_t end) {
    if (end > given && !hung_) munmap(reinterpret_cast<void*>(given), end - given);
    given = std::max(given, end);
  };
  for (const Piece& part : parts_of(parked.pieces)) {
    if (problem.empty()) problem = copy_small({part}, nullptr);
    give(part.end() / kPage * kPage);
  }
  give((parked.pieces.back().end() + kPage - 1) / kPage * kPage);
  return problem;
}

void Snapshots::log_whole(const std::function<void()>& before) {
  before();
  output_.log(Json("whole").number("bytes", bytes_).text("failed", failed_).done());
  output_.flush();
}

// Write out what was taken only from here on: transfers would compete with work that is being timed.
void Snapshots::end(bool hung, std::function<void()> before) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ending_) return;
  ending_ = true, hung_ = hung;
  expecting_.store(nullptr, std::memory_order_relaxed);
  if (shadows_.empty() && parked_.empty()) return log_whole(before);
  const StartingThread starting;
  thread_ = std::thread([this, before] { drain(before); });
}

void Snapshots::finish() {
  std::thread thread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Snapshots::forget(CUcontext context) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ending_) return;
  const auto gone = [context](const Shadow& shadow) { return shadow.context == context; };
  shadows_.erase(std::remove_if(shadows_.begin(), shadows_.end(), gone), shadows_.end());
  if (staging_.context != context) return;
  expecting_.store(nullptr, std::memory_order_relaxed);
  host_room_.stop(hung_);
  staging_ = {};
}

}  // namespace warpsight
