#include "capsule/snapshot.h"

#include <algorithm>

#include "capsule/driver.h"

namespace warpsight {
namespace {

constexpr uint64_t kPart = 8u << 20;          // bytes of one transfer to the host
constexpr uint64_t kHostPart = 1u << 20;      // of one write of the host's memory
constexpr uint64_t kLeftFree = 512ull << 20;  // of the GPU's memory, at least, for the program
constexpr unsigned kHoldWorkers = 8, kLaterWorkers = 2;
constexpr uint64_t kSmall = 2u << 20;  // what costs less than pinning memory for its transfer

uint64_t up(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

std::vector<Piece> parts_of(const std::vector<Piece>& pieces) {
  std::vector<Piece> parts;
  for (const Piece& piece : pieces) {
    const uint64_t most = piece.host ? kHostPart : kPart;
    for (uint64_t at = 0; at < piece.size; at += most)
      parts.push_back({piece.address + at, std::min(most, piece.size - at), piece.offset + at, piece.host});
  }
  return parts;
}

// One thread's way from the GPU to the output: a stream and a pinned buffer, made for the first part of the
// GPU's memory.
class Lane {
 public:
  explicit Lane(CUcontext context) : context_(context) {}
  ~Lane() {
    if (buffer_ != nullptr) cu().cuMemFreeHost(buffer_);
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
};

}  // namespace

std::string Snapshots::take(CUcontext context, std::vector<Piece> pieces) {
  OwnCalls own;
  uint64_t total = 0, bytes = 0;
  for (const Piece& piece : pieces) total += piece.host ? 0 : up(piece.size), bytes += piece.size;
  std::vector<Piece> now;  // what is not in the shadow
  std::vector<Piece> later;
  for (const Piece& piece : pieces) (piece.host ? now : later).push_back(piece);
  if (total == 0 || !shadow(context, later, total)) now = pieces;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += bytes;
  }
  return copy(context, now, kHoldWorkers, nullptr);
}

// No buffer is pinned or freed, as that may wait for the GPU.
std::string Snapshots::take_aside(CUcontext context, const std::vector<Piece>& pieces) {
  OwnCalls own;
  InContext here(context);
  if (aside_ == nullptr) {
    const CUresult result = cu().cuStreamCreate(&aside_, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) return failure("making a stream for copies", result);
  }
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

bool Snapshots::shadow(CUcontext context, const std::vector<Piece>& pieces, uint64_t total) {
  size_t free = 0, all = 0;
  if (!shadow_allowed_ || cu().memory_info(&free, &all) != CUDA_SUCCESS) return false;
  if (free < total + std::max<uint64_t>(kLeftFree, all / 16)) return false;
  Shadow made = {context, 0, {}};
  if (cu().allocate(&made.memory, total) != CUDA_SUCCESS) return false;
  uint64_t at = made.memory;
  CUresult result = CUDA_SUCCESS;
  for (const Piece& piece : pieces) {
    if (result == CUDA_SUCCESS) result = cu().device_to_device(at, piece.address, piece.size, nullptr);
    made.pieces.push_back({at, piece.size, piece.offset, false});
    at += up(piece.size);
  }
  if (result == CUDA_SUCCESS) result = cu().synchronize();
  if (result != CUDA_SUCCESS) {
    cu().free(made.memory);
    return false;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  shadows_.push_back(std::move(made));
  if (!thread_.joinable()) thread_ = std::thread([this] { drain(); });
  changed_.notify_all();
  return true;
}

void Snapshots::drain() {
  OwnCalls own;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    // Transfers would compete with the program's work while that is held and timed.
    changed_.wait(lock, [this] { return ending_; });
    if (shadows_.empty()) return log_whole();
    const Shadow shadow = shadows_.front();
    shadows_.pop_front();
    lock.unlock();
    const std::string problem = write_out(shadow);
    lock.lock();
    if (failed_.empty()) failed_ = problem;
  }
}

// While the program goes on: its null stream would order its other streams, and break a capture of theirs.
std::string Snapshots::write_out(const Shadow& shadow) {
  InContext here(shadow.context);
  CUstream stream = nullptr;
  const CUresult result = cu().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  const std::string problem = result == CUDA_SUCCESS
                                  ? copy(shadow.context, shadow.pieces, kLaterWorkers, stream)
                                  : failure("making a stream for copies", result);
  cu().free(shadow.memory);
  return problem;
}

void Snapshots::log_whole() {
  output_.log(Json("whole").number("bytes", bytes_).text("failed", failed_).done());
}

void Snapshots::end() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ending_) return;
  ending_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) log_whole();
}

void Snapshots::finish() {
  std::thread thread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

}  // namespace warpsight
