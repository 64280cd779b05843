#include "capsule/snapshot.h"

#include <algorithm>

#include "capsule/driver.h"

namespace warpsight {
namespace {

constexpr uint64_t kPart = 4u << 20;          // bytes of one transfer to the host
constexpr uint64_t kHostPart = 1u << 20;      // of one write of the host's memory
constexpr uint64_t kLeftFree = 512ull << 20;  // of the GPU's memory, at least, for the program
constexpr uint64_t kRoom = 64u << 20;         // of the GPU's memory that is made for copies at once, at least
constexpr unsigned kHoldWorkers = 8, kLaterWorkers = 2;
constexpr uint64_t kSmall = 2u << 20;  // cheaper than pinning memory for its transfer

uint64_t up(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

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

// One thread's way from the GPU to the output: a stream and a pinned buffer, made for the first part of the
// GPU's memory.
class Lane {
 public:
  explicit Lane(CUcontext context) : context_(context) {}
  // Contents that are ready and do not change.
  Lane(CUcontext context, CUstream stream, void* buffer)
      : context_(context), stream_(stream), buffer_(buffer), owned_(false) {}
  ~Lane() {
    if (owned_ && buffer_ != nullptr) cu().cuMemFreeHost(buffer_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  std::string move(const Piece& part, Output* output) {
    const void* bytes = reinterpret_cast<const void*>(part.address);
    if (!part.host) {
      if (buffer_ == nullptr && result_ == CUDA_SUCCESS) make();
      if (result_ == CUDA_SUCCESS) result_ = cu().device_to_host(buffer_, part.address, part.size, stream_);
      if (result_ == CUDA_SUCCESS) result_ = cu().cuStreamSynchronize(stream_);
      if (result_ != CUDA_SUCCESS) return failure("copying memory to the host", result_);
      bytes = buffer_;
    }
    return output->write(part.offset, bytes, part.size) ? "" : "the contents could not be written";
  }

 private:
  void make() {
    result_ = cu().cuCtxSetCurrent(context_);
    if (result_ == CUDA_SUCCESS) result_ = cu().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    if (result_ == CUDA_SUCCESS) result_ = cu().cuMemHostAlloc(&buffer_, kPart, 0);
  }

  const CUcontext context_;
  CUresult result_ = CUDA_SUCCESS;
  CUstream stream_ = nullptr;
  void* buffer_ = nullptr;
  const bool owned_ = true;
};

}  // namespace

void Snapshots::prepare(CUcontext context) {
  OwnCalls own;
  if (!shadow_allowed_ || staging_.buffer != nullptr) return;
  staging_.context = context;
  if (cu().cuStreamCreate(&staging_.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      cu().cuMemHostAlloc(&staging_.buffer, kPart, 0) != CUDA_SUCCESS)
    staging_ = {};
  room(context, kRoom);
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
  return copy(context, now, kHoldWorkers, nullptr);
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
                            CUstream stream) {
  const std::vector<Piece> parts = parts_of(pieces);
  uint64_t total = 0;
  for (const Piece& part : parts) total += part.size;
  if (total <= kSmall) return copy_small(parts, stream);
  std::atomic<size_t> next{0};  // the next part to be moved
  std::mutex mutex;             // protects `problem`
  std::string problem;
  const auto work = [&] {
    OwnCalls own;
    Lane lane(context);
    for (size_t i = next++; i < parts.size(); i = next++) {
      const std::string wrong = lane.move(parts[i], &output_);
      if (wrong.empty()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      problem = wrong;
      return;
    }
  };
  std::vector<std::thread> threads;
  const size_t count =
      std::min<size_t>({workers, parts.size(), std::max(1u, std::thread::hardware_concurrency())});
  for (size_t i = 0; i < count; ++i) threads.emplace_back(work);
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
  const uint64_t left = std::max<uint64_t>(kLeftFree, all / 16);
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
  for (const Shadow& shadow : shadows_) {
    const std::string problem = write_out(shadow);
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
  Lane lane(staging_.context, staging_.stream, staging_.buffer);
  for (const Piece& part : parts_of(pieces)) {
    const std::string problem = lane.move(part, &output_);
    if (!problem.empty()) return problem;
  }
  return "";
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
  if (shadows_.empty()) return log_whole(before);
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
  if (staging_.context == context) staging_ = {};
}

}  // namespace warpsight
