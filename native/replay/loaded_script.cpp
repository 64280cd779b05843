#include "replay/loaded_script.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace warpsight::replay {
namespace {

constexpr uint64_t kMostEvents = 1 << 22;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kAddressEnd = 1ull << 57;

bool map(const char* path, const unsigned char** bytes, size_t* size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0) return false;
  *size = static_cast<size_t>(status.st_size);
  if (*size != 0) {
    void* const at = mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file, 0);
    *bytes = at == MAP_FAILED ? nullptr : static_cast<const unsigned char*>(at);
  }
  close(file);
  return *size == 0 || *bytes != nullptr;
}

bool within(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

template <class T>
bool take(const unsigned char* file, size_t size, const Section& section, Span<T>* span) {
  if (section.count > size / sizeof(T) || section.offset % alignof(T) != 0 ||
      !within(section.offset, section.count * sizeof(T), size))
    return false;
  span->first = reinterpret_cast<const T*>(file + section.offset);
  span->count = section.count;
  return true;
}

bool contents(const Script& script, uint64_t offset, uint64_t size) {
  return offset == kNone || within(offset, size, script.data_size);
}

// Ranges by address.
bool good_mappings(const Script& script) {
  uint64_t end = 0;
  for (const Mapping& one : script.mappings) {
    if (one.kind > kPinned || one.size == 0 || (one.address | one.size) % kPage != 0 || one.address < end ||
        !within(one.address, one.size, kAddressEnd))
      return false;
    end = one.address + one.size;
  }
  return true;
}

// Each in one mapping, by address.
bool good_pieces(const Script& script) {
  const Mapping* mapping = script.mappings.begin();
  uint64_t end = 0;
  for (const Piece& one : script.pieces) {
    while (mapping != script.mappings.end() && mapping->address + mapping->size <= one.address) ++mapping;
    if (mapping == script.mappings.end() || one.size == 0 || one.address < end ||
        one.address < mapping->address || !within(one.address, one.size, mapping->address + mapping->size) ||
        !contents(script, one.before, one.size) || !contents(script, one.after, one.size))
      return false;
    end = one.address + one.size;
  }
  return true;
}

bool is_text(const Script& script, uint32_t offset) {
  return offset < script.bytes.count &&
         memchr(script.bytes.first + offset, 0, script.bytes.count - offset) != nullptr;
}

bool good(const Script& script, const Function& function) {
  return function.module < script.modules.count && function.replacement < script.functions.count &&
         function.attributes <= kMostAttributes && is_text(script, function.name);
}

bool good(const Script& script, const Operation& one) {
  if (one.stream >= script.streams.count) return false;
  if (one.kind == kLaunch)
    return one.function < script.functions.count && one.parameters % 64 == 0 &&
           within(one.parameters, one.parameter_bytes, script.bytes.count) &&
           within(one.attribute, one.attributes, script.attributes.count);
  if (one.kind == kRecord || one.kind == kWait) return one.function < script.header->events;
  if (one.kind == kGraphLaunch) return one.function < script.graphs.count;
  if (one.kind == kUpload || one.kind == kDownload) {
    if (one.height == 0 || one.width > kMostBytes / one.height) return false;
    return one.kind == kDownload || within(one.from, one.width * one.height, script.data_size);
  }
  if (one.kind == kFill) return one.element == 1 || one.element == 2 || one.element == 4;
  return one.kind == kCopy || one.kind == kEmpty;
}

bool good(const Script& script, const Graph& graph) {
  if (!within(graph.first, graph.count, script.operations.count) || graph.first < script.header->sequence)
    return false;
  for (uint64_t node = 0; node < graph.count; ++node) {
    const Operation& one = script.operations[graph.first + node];
    if (one.kind == kGraphLaunch || one.kind == kRecord || one.kind == kWait ||
        !within(one.after, one.after_count, script.edges.count))
      return false;
    for (uint32_t i = 0; i < one.after_count; ++i)
      if (script.edges[one.after + i] >= node) return false;
  }
  return true;
}

bool good(const Script& script, const Patch& patch) {
  if (patch.global >= script.globals.count) return false;
  if (patch.place == kInMemory)
    return std::any_of(script.mappings.begin(), script.mappings.end(), [&](const Mapping& mapping) {
      return patch.offset >= mapping.address && within(patch.offset, 8, mapping.address + mapping.size);
    });
  if (patch.place == kInGlobal)
    return patch.index < script.globals.count && within(patch.offset, 8, script.globals[patch.index].size);
  if (patch.index >= script.operations.count) return false;
  if (patch.place == kTo || patch.place == kFrom) return true;
  return patch.place == kInParameters && script.operations[patch.index].kind == kLaunch &&
         within(patch.offset, 8, script.operations[patch.index].parameter_bytes);
}

const char* first_fault(const Script& script) {
  if (!good_mappings(script)) return "mapping";
  if (!good_pieces(script)) return "piece";
  for (const Module& module : script.modules)
    if (!within(module.offset, module.size, script.data_size)) return "module";
  for (const Function& function : script.functions)
    if (!good(script, function)) return "function";
  for (const Global& global : script.globals)
    if (global.module >= script.modules.count || !is_text(script, global.name) ||
        !contents(script, global.before, global.size) || !contents(script, global.after, global.size))
      return "global";
  for (const Operation& one : script.operations)
    if (!good(script, one)) return "operation";
  for (const Graph& graph : script.graphs)
    if (!good(script, graph)) return "graph";
  for (const Patch& patch : script.patches)
    if (!good(script, patch)) return "patch";
  return nullptr;
}

}  // namespace

const char* Script::open(const char* script_path, const char* data_path) {
  const unsigned char* file = nullptr;
  size_t size = 0;
  if (!map(script_path, &file, &size)) return "the script cannot be read";
  if (!map(data_path, &data, &data_size)) return "the data cannot be read";
  if (size < sizeof(Header)) return "the script is too short";
  header = reinterpret_cast<const Header*>(file);
  if (memcmp(header->magic, kMagic, sizeof kMagic) != 0 || header->version != kVersion)
    return "the script is of another version";
  if (!take(file, size, header->mappings, &mappings) || !take(file, size, header->pieces, &pieces) ||
      !take(file, size, header->modules, &modules) || !take(file, size, header->functions, &functions) ||
      !take(file, size, header->globals, &globals) || !take(file, size, header->patches, &patches) ||
      !take(file, size, header->streams, &streams) || !take(file, size, header->operations, &operations) ||
      !take(file, size, header->graphs, &graphs) || !take(file, size, header->edges, &edges) ||
      !take(file, size, header->attributes, &attributes) || !take(file, size, header->bytes, &bytes))
    return "a section is outside the script";
  if (header->sequence > operations.count || header->first > header->sequence || streams.count == 0 ||
      header->events > kMostEvents || header->variants < 1 || header->variants > 2)
    return "a count is too large";
  return first_fault(*this);
}

}  // namespace warpsight::replay
