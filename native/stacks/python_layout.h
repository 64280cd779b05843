// Where CPython keeps what a stack walk needs: offsets by version, compiled in up to 3.12, self-described
// from 3.13 on (compiled in for 3.13 too, because a walk with constants is twice as fast when the description
// agrees).
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight {

// Byte offsets inside CPython's structs; 0 also means "this version has none" where that cannot be an offset.
struct PythonLayout {
  uint32_t minor;          // 3.minor
  uint32_t free_threaded;  // built without a GIL
  // _PyRuntime
  uint32_t finalizing, interpreters_head, gil_in_runtime;
  // PyInterpreterState; `gil_pointer` leads to a struct with the holder and whether it is locked
  uint32_t interpreter_next, threads_head, gil_pointer, gil_holder, gil_locked;
  // PyThreadState; `thread_frame` is the innermost frame, or a _PyCFrame that points to it
  uint32_t thread_next, thread_ident, thread_native, thread_frame, has_cframe, cframe_frame;
  // PyFrameObject (3.10) or _PyInterpreterFrame; the first `frame_bytes` hold all of these
  uint32_t frame_previous, frame_code, frame_instruction, frame_line, frame_owner, frame_is_entry,
      frame_bytes;
  uint32_t frame_bytecode_index;  // free-threaded 3.14+: which copy of the bytecode it runs
  // PyCodeObject; `code_object` is 3.10's co_code, `code_bytes` where later versions keep the instructions
  uint32_t code_filename, code_name, code_qualname, code_linetable, code_firstline, code_names, code_consts;
  uint32_t code_object, code_bytes, code_firsttraceable, code_version, code_copies;
  // PyObject, bytes, str
  uint32_t object_type, object_size, bytes_data;
  uint32_t text_length, text_hash, text_state, text_ascii_bytes, text_compact_bytes;
  uint32_t text_kind_shift;  // 0: to be seen from each text's state
  // Frames whose owner is this or more are the interpreter's own (an entry from C), not a function's.
  uint32_t first_shim_owner;

  // kind:3 compact:1 ascii:1 of a text's state. They follow whether it is interned (0 to 3), which 3.14 keeps
  // in two bits, a byte (free-threaded) or 16 bits (its first releases); none of the three can be taken for
  // another, since no kind is 0.
  uint32_t text_bits(uint32_t state) const {
    if (text_kind_shift) return state >> text_kind_shift;
    return state >> ((state & 255) > 3 ? 2 : (state >> 8 & 255) ? 8 : 16);
  }
  bool has_locations() const { return minor >= 11; }  // PEP 657 location table instead of 3.10's line table
  // co_version numbers code objects without reuse (until it overflows to 0). Without a GIL 3.13 increments
  // that number without a lock: threads that compile at once give the same ones again.
  bool versions_are_unique() const { return (minor == 12 || minor == 13) && !free_threaded; }
};

constexpr uint32_t kOldestPython = 10;
constexpr uint32_t kNewestPython = 14;
constexpr size_t kDebugOffsetsBytes =
    1024;  // enough of _PyRuntime to hold the newest _Py_DebugOffsets we know

// Offsets of CPython 3.`minor` from the table; false if the table does not have that version.
constexpr bool set_compiled_offsets(uint32_t minor, PythonLayout* o) {
  switch (minor) {
#include "stacks/python_offsets.inc"
    default:
      return false;
  }
}

constexpr PythonLayout compiled_layout(uint32_t minor) {
  PythonLayout layout = {};
  set_compiled_offsets(minor, &layout);
  return layout;
}

// The complete layout of 3.`minor`. `runtime` is the start of _PyRuntime, at least kDebugOffsetsBytes, and is
// read only for 3.13 and later. Returns nullptr, or the reason for a failure.
const char* python_layout(uint32_t minor, const uint8_t* runtime, PythonLayout* layout);

// PY_VERSION_HEX as _PyRuntime describes itself, 0 before 3.13.
uint32_t described_version(const uint8_t* runtime);

}  // namespace warpsight
