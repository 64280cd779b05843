// From places in Python code to ids of frames.
#pragma once

#include "layout.h"
#include "stacks/code_table.h"
#include "stacks/definitions.h"

namespace warpsight {

// Frame ids of one process's Python code. Not thread-safe; a cache, like the code table below it.
class FrameIds {
 public:
  // The id of the frame at `place`, 0 when it could not be read or defined.
  template <class Memory>
  uint32_t get(const PythonLayout& o, Memory& memory, const Place& place, uint64_t code_type) {
    const Key key = {place.code, place.instruction, place.fingerprint & ~kEntry};
    if (const uint32_t known = ids_.find(key)) return known;
    const Code* code = codes_.get(o, memory, place, code_type);
    if (!code) return 0;
    const uint32_t line = line_of(o, memory, place, *code);
    const uint32_t id = define_frame({code->function, code->file, line, 0, 0, kFramePython});
    if (ids_.size() >= kMostIds) ids_.clear();
    if (id) ids_.add(key, id);
    return id;
  }
  void clear() {
    ids_.clear();
    codes_.clear();
  }
  void abandon() {
    ids_.abandon();
    codes_.abandon();
  }

 private:
  static constexpr uint32_t kMostIds = 1u << 18;
  struct Key {
    uint64_t code;
    uint64_t instruction;
    uint64_t fingerprint;
  };
  FlatTable<Key> ids_;
  CodeTable codes_;
};

}  // namespace warpsight
