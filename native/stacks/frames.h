// The walk along a thread's Python frames, the same for our own memory and another process's.
#pragma once

#include "stacks/memory.h"
#include "stacks/python_layout.h"

// The walk is compiled once per known layout, with its offsets as constants.
#define WARPSIGHT_INLINE inline __attribute__((always_inline))

namespace warpsight {

constexpr uint32_t kMostDepth = 1024;
constexpr uint64_t kEntry = 1;  // bit of Place::fingerprint: this frame was entered from C

// One frame: which code object, which instruction, and what distinguishes the code object from a later one at
// its address.
struct Place {
  uint64_t code;
  uint64_t instruction;  // its address; in 3.10 f_lasti, with f_lineno (0 unless tracing) in the upper half
  uint64_t fingerprint;
};

struct Chain {
  Place* places;  // innermost first; null: only count and hash are wanted
  uint32_t count;
  bool cut;
  uint64_t hash;  // of the places
};

constexpr uint64_t kMixA = 0x9e3779b97f4a7c15ull, kMixB = 0xbf58476d1ce4e5b9ull,
                   kMixC = 0x94d049bb133111ebull;
constexpr uint64_t kMixD = 0xd6e8feb86659fd93ull, kMixE = 0xa0761d6478bd642full,
                   kMixF = 0xe7037ed1a0b428dbull;

// A fingerprint of a str's contents: its hash if Python has computed it, otherwise derived from the text (at
// most 512 bytes).
template <class Memory>
WARPSIGHT_INLINE bool text_mark(const PythonLayout& o, Memory& memory, uint64_t text, uint64_t* mark) {
  uint64_t length, hash;
  uint32_t state;
  if (!load(memory, text + o.text_length, &length) || !load(memory, text + o.text_hash, &hash)) return false;
  *mark = hash * kMixA + length * kMixB;
  if (hash != ~uint64_t{0}) return true;
  if (!load(memory, text + o.text_state, &state)) return false;
  const uint32_t bits = o.text_bits(state);
  uint64_t bytes = length * (bits & 7);
  uint64_t at = text + (bits & 16 ? o.text_ascii_bytes : o.text_compact_bytes);
  if (bytes > 512) at += bytes - 512, bytes = 512;
  for (; bytes; at += 8) {
    // The last word may reach past the text, but not past the 16 bytes that its allocation was rounded up to.
    uint64_t word;
    if (!load(memory, at, &word)) return false;
    if (bytes < 8) word &= (uint64_t{1} << bytes * 8) - 1;
    *mark = (*mark << 7 | *mark >> 57) ^ word * kMixC;
    bytes = bytes < 8 ? 0 : bytes - 8;
  }
  return true;
}

// The same for a line table: its length and 24 of its bytes.
template <class Memory>
WARPSIGHT_INLINE bool table_mark(const PythonLayout& o, Memory& memory, uint64_t table, uint64_t* mark) {
  uint64_t length, first = 0, middle = 0, last = 0;
  if (!load(memory, table + o.object_size, &length)) return false;
  const uint64_t data = table + o.bytes_data;
  if (length >= 8) {
    if (!load(memory, data, &first) || !load(memory, data + (length / 2 & ~uint64_t{3}) - 4, &middle) ||
        !load(memory, data + length - 8, &last)) {
      return false;
    }
  } else if (!memory.copy(data, &first, length)) {
    return false;
  }
  *mark = length * kMixA + first * kMixB + middle * kMixC + last * kMixD;
  return true;
}

// The file name is mostly that of the frame before; remembered along one walk.
struct LastText {
  uint64_t address = 0;
  uint64_t mark = 0;
};

// All that distinguishes two code objects short of their bytecode.
template <class Memory>
WARPSIGHT_INLINE bool content_mark(const PythonLayout& o, Memory& memory, uint64_t code, uint64_t table,
                                   LastText* file, uint64_t* mark) {
  uint64_t name, filename, names, consts, size, text, lines;
  uint32_t line;
  if (!load(memory, code + o.code_qualname, &name) || !load(memory, code + o.code_firstline, &line) ||
      !load(memory, code + o.code_filename, &filename) || !load(memory, code + o.code_names, &names) ||
      !load(memory, code + o.code_consts, &consts) ||
      !load(memory, code + (o.code_object ? o.code_object : o.object_size), &size)) {
    return false;
  }
  if (filename != file->address) {
    if (!text_mark(o, memory, filename, &file->mark)) return false;
    file->address = filename;
  }
  if (!text_mark(o, memory, name, &text) || !table_mark(o, memory, table, &lines)) return false;
  *mark = names * kMixF + consts * kMixE + size * kMixD + filename * kMixC + name * kMixB + line * kMixA;
  *mark ^=
      (text ^ text >> 29) * kMixB + (file->mark ^ file->mark >> 31) * kMixF + (lines ^ lines >> 33) * kMixA;
  return true;
}

// Addresses are reused all the time, names and line tables included, so pointers alone prove nothing: a code
// object is known by Python's own unique version of it, or else by pointers, sizes and marks of its texts.
template <class Memory>
WARPSIGHT_INLINE bool fingerprint(const PythonLayout& o, Memory& memory, uint64_t code, LastText* file,
                                  uint64_t* out) {
  uint32_t version = 0;
  if (o.code_version && !load(memory, code + o.code_version, &version)) return false;
  uint64_t mark = code * kMixA + version * kMixE;
  if (!o.versions_are_unique() || __builtin_expect(!version, 0)) {
    uint64_t table, texts;
    if (!load(memory, code + o.code_linetable, &table)) return false;
    if (!content_mark(o, memory, code, table, file, &texts)) return false;
    mark += texts + table * kMixC;
  }
  *out = (mark ^ mark >> 32) & ~kEntry;
  return true;
}

// Reads the frame pointer of a thread state; false when it cannot be read.
template <class Memory>
WARPSIGHT_INLINE bool innermost_frame(const PythonLayout& o, Memory& memory, uint64_t thread_state,
                                      uint64_t* frame) {
  if (!load(memory, thread_state + o.thread_frame, frame)) return false;
  if (!o.has_cframe) return true;
  const uint64_t cframe = *frame;
  *frame = 0;
  return cframe == 0 || load(memory, cframe + o.cframe_frame, frame);
}

enum class FrameKind { function, shim, trampoline, incomplete, unreadable };

constexpr uint8_t kGenerator = 1;  // who owns a frame

// One frame of 3.11 and later. Those without a function are the interpreter's own entry frames (shims),
// functions still being set up (before their first traceable instruction) or being left: incomplete; and what
// runs after an __init__ that was called without a C call (trampolines: none of their instructions is
// traceable).
template <class Memory>
WARPSIGHT_INLINE FrameKind read_frame(const PythonLayout& o, Memory& memory, uint64_t frame, Place* place) {
  uint8_t owner;
  if (!load(memory, frame + o.frame_owner, &owner)) return FrameKind::unreadable;
  if (owner >= o.first_shim_owner) return FrameKind::shim;
  if (!load(memory, frame + o.frame_code, &place->code) ||
      !load(memory, frame + o.frame_instruction, &place->instruction)) {
    return FrameKind::unreadable;
  }
  place->code &= ~uint64_t{7};  // 3.14 tags the reference
  // 3.14 clears the reference of a frame that is being left.
  if (!place->code) return o.minor >= 14 ? FrameKind::incomplete : FrameKind::shim;
  uint32_t first;
  if (!load(memory, place->code + o.code_firsttraceable, &first)) return FrameKind::unreadable;
  const uint64_t start = place->code + o.code_bytes;
  if (owner != kGenerator && place->instruction + 2 >= start &&
      place->instruction < start + uint64_t{first} * 2) {
    uint64_t units;
    if (!load(memory, place->code + o.object_size, &units)) return FrameKind::unreadable;
    return units <= first ? FrameKind::trampoline : FrameKind::incomplete;
  }
  return FrameKind::function;
}

// Whether a frame is a generator's or a coroutine's: it has a caller while it runs.
template <class Memory>
WARPSIGHT_INLINE bool of_generator(const PythonLayout& o, Memory& memory, uint64_t frame, uint64_t code,
                                   bool* answer) {
  if (o.minor >= 11) {
    uint8_t owner;
    if (!load(memory, frame + o.frame_owner, &owner)) return false;
    *answer = owner == kGenerator;
    return true;
  }
  constexpr uint32_t kGenerators = 0x20 | 0x80 | 0x200;  // CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
  uint32_t flags;
  if (!load(memory, code + o.code_firstline - 4, &flags)) return false;  // 3.10: co_flags
  *answer = (flags & kGenerators) != 0;
  return true;
}

// Up to `limit` frames from `frame` outwards. False when something could not be read or makes no sense.
// `moving`: the thread may be running; a function that is being set up can then only be the innermost, and a
// generator cannot be the outermost: between two values it has no caller.
template <class Memory>
WARPSIGHT_INLINE bool walk_frames(const PythonLayout& o, Memory& memory, uint64_t frame, uint32_t limit,
                                  bool moving, Chain* chain) {
  chain->count = 0;
  chain->cut = false;
  chain->hash = 0;
  uint32_t skipped = 0;
  bool generator = false;  // of the last frame
  LastText file;
  while (frame) {
    Place place = {};
    FrameKind kind = FrameKind::function;
    if (o.minor >= 11) {
      kind = read_frame(o, memory, frame, &place);
    } else if (!load(memory, frame + o.frame_code, &place.code) ||
               !load(memory, frame + o.frame_instruction, &place.instruction)) {
      return false;
    }
    if (kind == FrameKind::unreadable || (moving && kind == FrameKind::incomplete && chain->count))
      return false;
    if (kind == FrameKind::function) {
      if (chain->count == limit) {
        chain->cut = true;
        return true;
      }
      if (!fingerprint(o, memory, place.code, &file, &place.fingerprint)) return false;
      uint8_t entry = o.minor < 11;
      if (o.frame_is_entry && !load(memory, frame + o.frame_is_entry, &entry)) return false;
      if (entry) place.fingerprint |= kEntry;
      if (moving && !of_generator(o, memory, frame, place.code, &generator)) return false;
      if (chain->places) chain->places[chain->count] = place;
      ++chain->count;
      chain->hash = ((chain->hash + place.instruction * kMixB) ^ place.fingerprint) * kMixD;
    } else {
      generator = false;
      if (++skipped > 4 * kMostDepth) return false;  // a loop in memory that is changing under us
      if (kind == FrameKind::shim && chain->count && chain->places)
        chain->places[chain->count - 1].fingerprint |= kEntry;
    }
    if (!load(memory, frame + o.frame_previous, &frame)) return false;
  }
  return !generator;
}

}  // namespace warpsight
