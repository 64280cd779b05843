#include "capsule/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace warpsight {

bool Output::create(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0) return false;
  log_ = open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  data_ = open((folder + "/data").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return log_ >= 0 && data_ >= 0;
}

void Output::log(const std::string& json) {
  constexpr size_t kMost = 1u << 20;
  std::lock_guard<std::mutex> lock(mutex_);
  lines_ += json;
  lines_ += '\n';
  if (lines_.size() > kMost) write_log();
}

void Output::flush() {
  std::lock_guard<std::mutex> lock(mutex_);
  write_log();
}

void Output::write_log() {
  for (size_t at = 0; at < lines_.size();) {
    const ssize_t written = ::write(log_, lines_.data() + at, lines_.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // the reader misses the line "end"
    at += static_cast<size_t>(written);
  }
  lines_.clear();
}

uint64_t Output::log_end() {
  std::lock_guard<std::mutex> lock(mutex_);
  write_log();
  const off_t end = lseek(log_, 0, SEEK_CUR);
  return end < 0 ? 0 : static_cast<uint64_t>(end);
}

void Output::cut_log(uint64_t end) {
  std::lock_guard<std::mutex> lock(mutex_);
  lines_.clear();
  if (ftruncate(log_, static_cast<off_t>(end)) == 0) lseek(log_, static_cast<off_t>(end), SEEK_SET);
}

void Output::drop(const std::vector<std::pair<uint64_t, uint64_t>>& extents) {
  for (const auto& extent : extents)  // a file system without holes keeps them
    fallocate(data_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.first),
              static_cast<off_t>(extent.second));
}

uint64_t Output::reserve(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;  // so that each piece can be mapped
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t offset = size_;
  size_ += (bytes + kPage - 1) / kPage * kPage;
  return offset;
}

bool Output::write(uint64_t offset, const void* data, uint64_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(data_, at, static_cast<size_t>(std::min<uint64_t>(bytes, 64u << 20)),
                                   static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      log(Json("refused")
              .text("why", "the contents could not be written: the disk is full or refuses")
              .done());
      flush();
      return false;
    }
    at += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
  return true;
}

uint64_t Output::append(const void* data, uint64_t bytes) {
  const uint64_t offset = reserve(bytes);
  write(offset, data, bytes);
  return offset;
}

Json::Json(const char* kind) : text_("{\"kind\":" + quoted(kind)) {}

Json& Json::raw(const char* name, const std::string& json) {
  text_ += ",\"";
  text_ += name;
  text_ += "\":";
  text_ += json;
  return *this;
}

Json& Json::text(const char* name, const std::string& value) { return raw(name, quoted(value)); }
Json& Json::number(const char* name, uint64_t value) { return raw(name, std::to_string(value)); }
Json& Json::integer(const char* name, int64_t value) { return raw(name, std::to_string(value)); }

Json& Json::bytes(const char* name, const void* data, size_t size) {
  static const char digits[] = "0123456789abcdef";
  std::string hex;
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<const unsigned char*>(data)[i];
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return text(name, hex);
}

uint64_t time_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace warpsight
