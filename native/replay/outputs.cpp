#include "replay/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace warpsight::replay {
namespace {

// FNV-1a, eight bytes at a time: distinguishes contents of the same size within one replay.
uint64_t hash_of(const unsigned char* bytes, uint64_t size) {
  uint64_t hash = 14695981039346656037ull;
  uint64_t word = 0;
  for (uint64_t at = 0; at < size; at += 8) {
    word = 0;
    memcpy(&word, bytes + at, size - at < 8 ? size - at : 8);
    hash = (hash ^ word) * 1099511628211ull;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

bool Outputs::open() {
  uint64_t place = 0;
  for (const Piece& piece : script_.pieces) {
    places_.push_back(place);
    place += piece.size;
  }
  const uint64_t copies = script_.header->variants + 1;  // the first run of each, and the present one
  if (place > host_memory() / copies) {
    report_->line(
        "failed -1 memory comparing %llu bytes takes %llu times as much, more than this machine has",
        static_cast<unsigned long long>(place), static_cast<unsigned long long>(copies));
    return false;
  }
  const size_t size = place == 0 ? 1 : place;
  for (unsigned char** buffer : {&current_, &first_[0], &first_[1]}) {
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      report_->line("failed -1 memory %s", strerror(errno));
      return false;
    }
    *buffer = static_cast<unsigned char*>(at);
  }
  return true;
}

bool Outputs::write(const char* name, unsigned variant, size_t piece, const unsigned char* contents) {
  int& file = files_[name[0] == 'o'][variant];
  if (file < 0) {
    const std::string path = folder_ + "/" + name + "." + std::to_string(variant);
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  const uint64_t size = script_.pieces[piece].size;
  for (uint64_t at = 0; at < size;) {
    const ssize_t done =
        file < 0 ? -1 : pwrite(file, contents + at, size - at, static_cast<off_t>(places_[piece] + at));
    if (done <= 0) {
      report_->line("failed -1 output %s", strerror(errno));
      return false;
    }
    at += static_cast<uint64_t>(done);
  }
  return true;
}

void Outputs::differs(const char* what, int run, unsigned variant, size_t piece, const unsigned char* a,
                      const unsigned char* b) {
  const uint64_t size = script_.pieces[piece].size;
  uint64_t first = size, count = 0;
  for (uint64_t i = 0; i < size; ++i) {
    if (a[i] == b[i]) continue;
    if (first == size) first = i;
    ++count;
  }
  report_->line("%s %d %u %zu %llu %llu", what, run, variant, piece, static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(count));
}

void Outputs::compare_recorded(int run, unsigned variant, const unsigned char* found) {
  for (size_t i = 0; i < script_.pieces.count; ++i) {
    const Piece& piece = script_.pieces[i];
    if (piece.after == kNone || memcmp(found + places_[i], script_.data + piece.after, piece.size) == 0)
      continue;
    differs("recorded", run, variant, i, found + places_[i], script_.data + piece.after);
    if (found == first_[variant]) write("first", variant, i, found + places_[i]);
  }
}

void Outputs::compare_runs(int run, unsigned variant, const unsigned char* before,
                           const unsigned char* found) {
  const bool versions = before == first_[0] && variant == 1;  // a kernel and what replaces it
  for (size_t i = 0; i < script_.pieces.count; ++i) {
    if (memcmp(before + places_[i], found + places_[i], script_.pieces[i].size) == 0) continue;
    differs(versions ? "versions" : "between", run, variant, i, found + places_[i], before + places_[i]);
    if (versions) {
      write("first", 0, i, before + places_[i]);
      write("first", 1, i, found + places_[i]);
      continue;
    }
    if (other_run_[variant] < 0) other_run_[variant] = run;
    if (other_run_[variant] != run) continue;
    write("first", variant, i, before + places_[i]);
    write("other", variant, i, found + places_[i]);
  }
}

bool Outputs::download(unsigned char* contents) {
  if (!memory_.download(contents)) return false;
  if (!program_.mends_memory()) return true;
  for (size_t i = 0; i < script_.pieces.count; ++i) {
    const Piece& piece = script_.pieces[i];
    program_.unmend(piece.address, piece.size, piece.before, contents + places_[i]);
  }
  return true;
}

bool Outputs::compare(int run, unsigned variant) {
  const bool first = run == 0;
  unsigned char* const found = first ? first_[variant] : current_;
  if (!download(found)) return false;
  compare_recorded(run, variant, found);
  if (!first) compare_runs(run, variant, first_[variant], found);
  if (first && variant == 1) compare_runs(run, variant, first_[0], found);
  return true;
}

// `first_[0]` holds the contents before the operation.
bool Outputs::compare_step(int run, long long operation) {
  if (operation < 0) return download(first_[0]);
  if (!download(current_)) return false;
  for (size_t i = 0; i < script_.pieces.count; ++i) {
    const unsigned char* const now = current_ + places_[i];
    const unsigned char* const before = first_[0] + places_[i];
    const uint64_t size = script_.pieces[i].size;
    if (memcmp(before, now, size) == 0) continue;
    uint64_t from = 0, to = size;
    while (before[from] == now[from]) ++from;
    while (before[to - 1] == now[to - 1]) --to;
    report_->line("wrote %d %lld %zu %llu %llu %016llx", run, operation, i,
                  static_cast<unsigned long long>(from), static_cast<unsigned long long>(to),
                  static_cast<unsigned long long>(hash_of(now, size)));
  }
  std::swap(current_, first_[0]);
  return true;
}

}  // namespace warpsight::replay
