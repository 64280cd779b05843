// The script and the data, mapped, with every offset and count checked against their sizes.
#pragma once
#include <cstddef>

#include "replay/script.h"

namespace warpsight::replay {

constexpr uint64_t kMostBytes = 1ull << 44;  // of a copy, and of all that pinned memory is made for

template <class T>
struct Span {
  const T* first = nullptr;
  size_t count = 0;
  const T* begin() const { return first; }
  const T* end() const { return first + count; }
  const T& operator[](size_t index) const { return first[index]; }
};

struct Script {
  const Header* header = nullptr;
  Span<Mapping> mappings;
  Span<Piece> pieces;
  Span<Module> modules;
  Span<Function> functions;
  Span<Global> globals;
  Span<Patch> patches;
  Span<Stream> streams;
  Span<Operation> operations;
  Span<Graph> graphs;
  Span<uint32_t> edges;
  Span<Attribute> attributes;
  Span<unsigned char> bytes;
  const unsigned char* data = nullptr;
  size_t data_size = 0;

  bool has(Flag flag) const { return (header->flags & flag) != 0; }
  const char* text(uint32_t offset) const { return reinterpret_cast<const char*>(bytes.first + offset); }
  // Null, or the problem.
  const char* open(const char* script_path, const char* data_path);
};

}  // namespace warpsight::replay
