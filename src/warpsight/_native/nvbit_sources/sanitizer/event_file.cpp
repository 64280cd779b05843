#include "sanitizer/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ring/crc32.h"

namespace warpsight {
namespace {

constexpr char kMagic[8] = {'W', 'S', 'E', 'V', 'E', 'N', 'T', '1'};
constexpr uint32_t kDescription = 1, kEvents = 2, kCubin = 3, kMap = 4;

struct BlockHeader {
  uint32_t kind;
  uint32_t crc;  // of the payload
  uint64_t bytes;
};

struct EventsHeader {
  uint64_t sequence;  // of the first word in its ring
  uint32_t ring;
  uint32_t records;
};

bool write_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

bool EventFile::create(const std::string& path, uint64_t limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  limit_ = limit;
  if (path.empty()) return true;  // nothing is written
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) return false;
  size_ = sizeof kMagic;
  return write_all(file_, kMagic, sizeof kMagic);
}

void EventFile::add(uint32_t kind, const Piece* pieces, size_t count) {
  BlockHeader header = {kind, 0, 0};
  for (size_t i = 0; i < count; ++i) {
    header.crc = crc32(header.crc, pieces[i].data, pieces[i].bytes);
    header.bytes += pieces[i].bytes;
  }
  bool good = write_all(file_, &header, sizeof header);
  for (size_t i = 0; good && i < count; ++i) good = write_all(file_, pieces[i].data, pieces[i].bytes);
  failed_ = !good;
  if (good) {
    size_ += sizeof header + header.bytes;
  } else if (ftruncate(file_, static_cast<off_t>(size_)) == 0) {  // no half block before the next
    lseek(file_, static_cast<off_t>(size_), SEEK_SET);
  }
}

void EventFile::describe(const std::string& json) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0) return;
  const Piece piece = {json.data(), json.size()};
  add(kDescription, &piece, 1);
}

void EventFile::describe_launch(const std::string& json) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (size_ >= limit_) {
      ++left_out_;
      return;
    }
  }
  describe(json);
}

void EventFile::add_cubin(uint32_t module, const char* image, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0) return;
  const Piece pieces[] = {{&module, sizeof module}, {image, bytes}};
  add(kCubin, pieces, 2);
}

void EventFile::add_events(uint32_t ring, uint64_t sequence, const std::vector<uint8_t>& lengths,
                           const std::vector<uint64_t>& words) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0) return;
  if (size_ >= limit_) {
    left_out_ += lengths.size();
    return;
  }
  constexpr uint64_t kPadding = 0;
  const EventsHeader header = {sequence, ring, static_cast<uint32_t>(lengths.size())};
  const Piece pieces[] = {{&header, sizeof header},
                          {lengths.data(), lengths.size()},
                          {&kPadding, (8 - lengths.size() % 8) % 8},
                          {words.data(), words.size() * sizeof words[0]}};
  add(kEvents, pieces, 4);
  if (failed_) lost_ += lengths.size();
}

void EventFile::add_map(uint32_t launch, uint32_t map, const uint64_t* words, uint64_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0) return;
  if (size_ >= limit_) {
    ++left_out_;
    return;
  }
  const uint32_t header[] = {launch, map};
  const Piece pieces[] = {{header, sizeof header}, {words, count * sizeof words[0]}};
  add(kMap, pieces, 2);
  if (failed_) ++lost_;
}

void EventFile::lose(const std::string& cause, uint64_t count) {
  describe("{\"kind\":\"loss\",\"cause\":" + quoted(cause) + ",\"count\":" + std::to_string(count) + "}");
}

void EventFile::end() {
  uint64_t lost = 0, left_out = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lost = lost_;
    left_out = left_out_;
  }
  if (left_out > 0) lose("records and launches were left out at the size limit of the file", left_out);
  if (lost > 0) lose("the event file could not be written", lost);
  describe("{\"kind\":\"end\"}");
}

std::string quoted(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace warpsight
