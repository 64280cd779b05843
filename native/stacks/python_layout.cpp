#include "stacks/python_layout.h"

#include <cstring>

namespace warpsight {

namespace {

// _Py_DebugOffsets is a sequence of 64-bit words after its cookie; these readers walk it in the order of its
// header (Include/internal/pycore_debug_offsets.h), naming what we use.
class Words {
 public:
  explicit Words(const uint8_t* bytes) : bytes_(bytes) {}
  uint32_t next() {
    uint64_t word;
    memcpy(&word, bytes_, 8);
    bytes_ += 8;
    ok_ = ok_ && word < 1u << 24;
    return static_cast<uint32_t>(word);
  }
  void skip(int words) { bytes_ += 8 * words; }
  bool ok() const { return ok_; }

 private:
  const uint8_t* bytes_;
  bool ok_ = true;
};

void read_states(Words* words, PythonLayout* o) {
  words->skip(1);
  o->finalizing = words->next();
  o->interpreters_head = words->next();
  words->skip(2);
  o->interpreter_next = words->next();
  o->threads_head = words->next();
  if (o->minor >= 14) words->skip(1);
  words->skip(4);
  o->gil_pointer = words->next();
  const uint32_t own_gil = words->next();
  words->skip(1);
  o->gil_locked = words->next() - own_gil;
  o->gil_holder = words->next() - own_gil;
  if (o->minor >= 14) words->skip(2);
  words->skip(2);
  o->thread_next = words->next();
  words->skip(1);
  o->thread_frame = words->next();
  o->thread_ident = words->next();
  o->thread_native = words->next();
  words->skip(2);
}

void read_frame_and_code(Words* words, PythonLayout* o) {
  words->skip(1);
  o->frame_previous = words->next();
  o->frame_code = words->next();
  o->frame_instruction = words->next();
  o->frame_bytes = words->next();  // localsplus: everything of interest is before it
  o->frame_owner = words->next();
  if (o->minor >= 14) {
    words->skip(1);
    o->frame_bytecode_index = words->next();
  }
  words->skip(1);
  o->code_filename = words->next();
  o->code_name = words->next();
  o->code_qualname = words->next();
  o->code_linetable = words->next();
  o->code_firstline = words->next();
  words->skip(3);
  o->code_bytes = words->next();
  if (o->minor >= 14) o->code_copies = words->next();
}

void read_objects(Words* words, PythonLayout* o) {
  words->skip(1);
  o->object_type = words->next();
  words->skip(4 + 3 + 3);  // type, tuple, list
  if (o->minor >= 14) words->skip(4);
  words->skip(3 + 2 + 3);  // dict, float, long
  words->skip(1);
  o->object_size = words->next();
  o->bytes_data = words->next();
  words->skip(1);
  o->text_state = words->next();
  o->text_length = words->next();
  o->text_ascii_bytes = words->next();
}

// Offsets that are not described but can be derived: the surrounding fields have kept their order since 3.11.
void derive_rest(PythonLayout* o) {
  o->text_hash = o->text_length + 8;
  o->text_compact_bytes = o->text_ascii_bytes + 16;
  o->text_kind_shift = o->minor == 13 && !o->free_threaded ? 2 : 0;
  o->code_firsttraceable = o->code_bytes - (o->code_copies ? 24 : 16);
  if (o->minor == 13) o->code_version = o->code_firstline + 24;
  // co_consts and co_names open the object in both versions.
  o->code_consts = o->object_size + 8;
  o->code_names = o->object_size + 16;
}

bool plausible(const PythonLayout& o) {
  return o.object_type + 8 <= o.object_size && o.bytes_data > o.object_size && o.text_ascii_bytes >= 40 &&
         o.text_ascii_bytes <= 64 && o.frame_previous < o.frame_bytes && o.frame_code < o.frame_bytes &&
         o.frame_instruction < o.frame_bytes && o.frame_owner < o.frame_bytes && o.frame_bytes <= 256 &&
         o.code_linetable < o.code_bytes && o.code_filename < o.code_bytes && o.code_bytes <= 512 &&
         o.thread_frame && o.thread_native && o.threads_head && o.interpreters_head;
}

bool read_debug_offsets(const uint8_t* runtime, PythonLayout* o) {
  uint64_t free_threaded;
  memcpy(&free_threaded, runtime + 16, 8);
  o->free_threaded = free_threaded != 0;
  Words words(runtime + 24);
  read_states(&words, o);
  read_frame_and_code(&words, o);
  read_objects(&words, o);
  derive_rest(o);
  return words.ok() && plausible(*o);
}

}  // namespace

uint32_t described_version(const uint8_t* runtime) {
  if (memcmp(runtime, "xdebugpy", 8) != 0) return 0;
  uint64_t version;
  memcpy(&version, runtime + 8, 8);
  return static_cast<uint32_t>(version);
}

const char* python_layout(uint32_t minor, const uint8_t* runtime, PythonLayout* layout) {
  *layout = PythonLayout{};
  if (minor < kOldestPython) return "this CPython is older than 3.10";
  if (minor > kNewestPython) return "this CPython is newer than 3.14";
  const bool compiled = set_compiled_offsets(minor, layout);
  layout->minor = minor;
  layout->first_shim_owner = minor >= 12 ? 3 : 255;
  if (minor < 13) return compiled ? nullptr : "no frame layout for this CPython";
  if (described_version(runtime) >> 16 != 0x300 + minor)
    return "this CPython does not describe its frame layout";
  return read_debug_offsets(runtime, layout) ? nullptr
                                             : "this CPython's description of its frame layout is unreadable";
}

}  // namespace warpsight
