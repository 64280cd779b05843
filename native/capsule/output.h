// A process's output for the launcher: `log`, lines of JSON, and `data`, bytes that the lines refer to by
// offset. warpsight/replay/capsule/recording.py reads both.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace warpsight {

class Output {
 public:
  // Makes the folder; false, with errno, when that fails.
  bool create(const std::string& folder);
  // Adds a line; the reader sees it once flush() was called, or many came after it.
  void log(const std::string& json);
  void flush();
  // Room for so many bytes of data: its offset.
  uint64_t reserve(uint64_t bytes);
  // Writes data at an offset that was reserved; any thread. False when the disk refuses.
  bool write(uint64_t offset, const void* data, uint64_t bytes);
  // Where the log ends; and making it end there again.
  uint64_t log_end();
  void cut_log(uint64_t end);
  // Gives the disk back what these extents (offset, size) of the data take.
  void drop(const std::vector<std::pair<uint64_t, uint64_t>>& extents);
  // Both together.
  uint64_t append(const void* data, uint64_t bytes);
  // The data as it can be mapped; -1 before create().
  int data() const { return data_; }

 private:
  void write_log();  // with the lock held

  std::mutex mutex_;  // protects the log and `size_`
  int log_ = -1, data_ = -1;
  std::string lines_;  // of the log, to be written: one by one they would hold the program
  uint64_t size_ = 0;  // reserved
};

// An object in JSON, built field by field.
class Json {
 public:
  explicit Json(const char* kind);
  Json& text(const char* name, const std::string& value);
  Json& number(const char* name, uint64_t value);
  Json& integer(const char* name, int64_t value);
  Json& raw(const char* name, const std::string& json);
  Json& bytes(const char* name, const void* data, size_t size);  // in hexadecimal
  std::string done() const { return text_ + "}"; }

 private:
  std::string text_;
};

std::string quoted(const std::string& text);  // sanitizer/event_file.cpp
uint64_t time_ns();                           // since 1970

}  // namespace warpsight
