// What we keep of code objects: names and line table, copied at first sight and never read from Python again.
#pragma once

#include <string>
#include <vector>

#include "ring/ring.h"
#include "stacks/flat_table.h"
#include "stacks/frames.h"
#include "stacks/line_table.h"
#include "stacks/utf8.h"

namespace warpsight {

// Texts and tables longer than this are not believed.
constexpr uint64_t kMostTextBytes = 1u << 20;

// A compact str as UTF-8; false when it is unreadable or nothing we know.
template <class Memory>
bool read_text(const PythonLayout& o, Memory& memory, uint64_t text, std::string* out);

struct Code {
  uint32_t function;  // string ids
  uint32_t file;
  int32_t first_line;
  std::vector<uint8_t> line_table;
};

// The code objects seen in one process. Not thread-safe. A cache: when it is full everything is dropped and
// learnt again, since frames are defined by content.
class CodeTable {
 public:
  // The entry for a code object at `place`, learnt from `memory` when it is new; nullptr when it could not be
  // read or is not a code object. `code_type`: address of PyCode_Type. Valid until the next call.
  template <class Memory>
  const Code* get(const PythonLayout& o, Memory& memory, const Place& place, uint64_t code_type);
  void clear();
  void
  abandon();  // in a forked child: leaves the memory alone, a thread of the parent may have been changing it

 private:
  static constexpr uint32_t kMostCodes = 1u << 16;
  struct Key {
    uint64_t code;
    uint64_t fingerprint;
  };
  FlatTable<Key> index_;  // position in codes_, plus 1
  std::vector<Code>* codes_ = nullptr;
};

// Line of the instruction at `place` in `code`; 0 when unknown.
template <class Memory>
uint32_t line_of(const PythonLayout& o, Memory& memory, const Place& place, const Code& code);

template <class Memory>
bool read_text(const PythonLayout& o, Memory& memory, uint64_t text, std::string* out) {
  uint64_t length;
  uint32_t state;
  out->clear();
  if (!load(memory, text + o.text_length, &length) || !load(memory, text + o.text_state, &state))
    return false;
  const uint32_t bits = o.text_bits(state);
  const uint32_t width = bits & 7;
  const bool compact = bits & 8, ascii = bits & 16;
  if (!compact || length > kMostTextBytes || (width != 1 && width != 2 && width != 4)) return false;
  std::string raw(length * width, '\0');
  if (!memory.copy(text + (ascii ? o.text_ascii_bytes : o.text_compact_bytes), &raw[0], raw.size()))
    return false;
  if (ascii) {
    *out = std::move(raw);
    return true;
  }
  for (uint64_t i = 0; i < length; ++i) {
    uint32_t point = 0;
    memcpy(&point, raw.data() + i * width, width);
    append_utf8(out, point);
  }
  return true;
}

template <class Memory>
bool read_line_table(const PythonLayout& o, Memory& memory, uint64_t table, std::vector<uint8_t>* out) {
  uint64_t length;
  if (!load(memory, table + o.object_size, &length) || length > kMostTextBytes) return false;
  out->resize(length);
  return memory.copy(table + o.bytes_data, out->data(), length);
}

template <class Memory>
bool learn_code(const PythonLayout& o, Memory& memory, uint64_t code, uint64_t code_type, Code* out) {
  uint64_t type, name, file, table;
  if (!load(memory, code + o.object_type, &type) || type != code_type) return false;
  if (!load(memory, code + o.code_qualname, &name) || !load(memory, code + o.code_filename, &file) ||
      !load(memory, code + o.code_linetable, &table) ||
      !load(memory, code + o.code_firstline, &out->first_line)) {
    return false;
  }
  std::string text;
  if (!read_text(o, memory, name, &text)) return false;
  out->function = intern(text);
  if (!out->function && !text.empty()) return false;  // it could not be defined now; perhaps next time
  if (!read_text(o, memory, file, &text)) return false;
  out->file = intern(text);
  if (!out->file && !text.empty()) return false;
  return read_line_table(o, memory, table, &out->line_table);
}

template <class Memory>
const Code* CodeTable::get(const PythonLayout& o, Memory& memory, const Place& place, uint64_t code_type) {
  const Key key = {place.code, place.fingerprint & ~kEntry};
  if (const uint32_t known = index_.find(key)) return &(*codes_)[known - 1];
  Code code = {};
  if (!learn_code(o, memory, place.code, code_type, &code)) return nullptr;
  if (codes_ && codes_->size() >= kMostCodes) clear();
  if (!codes_) codes_ = new std::vector<Code>();
  codes_->push_back(std::move(code));
  if (!index_.add(key, static_cast<uint32_t>(codes_->size()))) return nullptr;
  return &codes_->back();
}

// Where in its bytecode the frame is, in bytes: the bytecode is beside the code object or, without a GIL,
// also in copies of some threads' own, which are anywhere, near the code object too.
template <class Memory>
bool instruction_offset(const PythonLayout& o, Memory& memory, const Place& place, uint64_t* offset) {
  *offset = place.instruction - (place.code + o.code_bytes);
  if (!o.code_copies) return true;
  constexpr uint64_t kUnit = 2;  // an instruction pointer may be one unit before the first instruction
  uint64_t units, copies, count, copy;
  if (!load(memory, place.code + o.object_size, &units)) return false;
  const uint64_t bytes = (units + 1) * kUnit;
  if (*offset + kUnit < bytes) return true;
  if (!load(memory, place.code + o.code_copies, &copies) || !load(memory, copies, &count) || count > 65536)
    return false;
  for (uint64_t i = 0; i < count; ++i) {
    if (!load(memory, copies + 8 + i * 8, &copy)) return false;
    *offset = place.instruction - copy;
    if (copy && *offset + kUnit < bytes) return true;
  }
  return false;
}

template <class Memory>
uint32_t line_of(const PythonLayout& o, Memory& memory, const Place& place, const Code& code) {
  uint64_t offset;
  if (!o.has_locations()) {
    if (const uint32_t traced = static_cast<uint32_t>(place.instruction >> 32)) return traced;
    const int32_t last = static_cast<int32_t>(place.instruction);
    if (last < 0) return static_cast<uint32_t>(code.first_line);
    offset = static_cast<uint64_t>(last) * 2;
  } else if (!instruction_offset(o, memory, place, &offset)) {
    return 0;
  }
  // Before the first instruction: the frame was made but not entered.
  if (static_cast<int64_t>(offset) < 0) return static_cast<uint32_t>(code.first_line);
  return line_at(o.has_locations(), code.line_table.data(), code.line_table.size(), code.first_line,
                 static_cast<uint32_t>(offset));
}

}  // namespace warpsight
