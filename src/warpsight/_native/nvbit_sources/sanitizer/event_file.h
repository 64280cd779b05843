// The file of an event trace: blocks that each carry their length and checksum, so that a file that ends
// early or is damaged gives what comes before. warpsight/formats/events/blocks.py reads it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace warpsight {

class EventFile {
 public:
  // Creates `path`; false, with errno, when that fails. Past `limit` bytes, records and launches are left out
  // and counted.
  bool create(const std::string& path, uint64_t limit);
  // One description: an object in JSON.
  void describe(const std::string& json);
  // A launch's, which the limit may leave out.
  void describe_launch(const std::string& json);
  void add_cubin(uint32_t module, const char* image, size_t bytes);
  // Records as they lay in a ring: their lengths in words, and the words.
  void add_events(uint32_t ring, uint64_t sequence, const std::vector<uint8_t>& lengths,
                  const std::vector<uint64_t>& words);
  // What a probe's map holds after a launch: words.
  void add_map(uint32_t launch, uint32_t map, const uint64_t* words, uint64_t count);
  // Says that something is missing.
  void lose(const std::string& cause, uint64_t count);
  // The file is whole.
  void end();

 private:
  struct Piece {
    const void* data;
    size_t bytes;
  };
  void add(uint32_t kind, const Piece* pieces, size_t count);

  std::mutex mutex_;  // protects what follows: callbacks on the program's threads and the drain write
  int file_ = -1;
  uint64_t size_ = 0;    // whole blocks
  uint64_t lost_ = 0;    // records that could not be written
  bool failed_ = false;  // the last write did
  uint64_t limit_ = ~0ull;
  uint64_t left_out_ = 0;  // records and launches beyond the limit
};

// A text as a JSON string, with its quotes.
std::string quoted(const std::string& text);

}  // namespace warpsight
