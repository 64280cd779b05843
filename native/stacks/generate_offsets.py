"""Writes python_offsets.inc from the headers of real interpreters.

    python generate_offsets.py /usr/include/python3.10 /usr/include/python3.11 ... > python_offsets.inc

Each argument is an include directory that has `internal/`. A C program is compiled against it and prints
`offsetof`s, so the numbers are the compiler's, not ours. Run it when a CPython version without self-described
offsets is added; the result is committed, because a build machine has one interpreter at most. LP64 only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROBE = r"""
#define Py_BUILD_CORE 1
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "internal/pycore_runtime.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_gil.h"
#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#else
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#endif
#define V PY_VERSION_HEX
static int column = 0;
static void print(const char* name, unsigned long value) {
  char text[80];
  int length = snprintf(text, sizeof text, " o->%s = %lu;", name, value);
  if (column + length > 108) column = printf("\n   ") - 1;
  column += printf("%s", text);
}
#define P(name, value) print(#name, (unsigned long)(value))
#define O(name, type, member) P(name, offsetof(type, member))
static unsigned kind_shift(void) {
  PyASCIIObject text;
  unsigned state, shift = 0;
  memset(&text, 0, sizeof text);
  text.state.kind = 1;
  memcpy(&state, &text.state, sizeof state);
  while (!(state >> shift & 1)) shift++;
  return shift;
}
int main(void) {
  printf("  case %d:  // CPython %s", PY_MINOR_VERSION, PY_VERSION);
  column = 200;
  P(minor, PY_MINOR_VERSION);
  O(finalizing, _PyRuntimeState, _finalizing);
  O(interpreters_head, _PyRuntimeState, interpreters.head);
  O(interpreter_next, PyInterpreterState, next);
#if V < 0x030b0000
  O(threads_head, PyInterpreterState, tstate_head);
#else
  O(threads_head, PyInterpreterState, threads.head);
#endif
#if V < 0x030c0000
  O(gil_in_runtime, _PyRuntimeState, ceval.gil);
#else
  O(gil_pointer, PyInterpreterState, ceval.gil);
#endif
  O(gil_holder, struct _gil_runtime_state, last_holder);
  O(gil_locked, struct _gil_runtime_state, locked);
  O(thread_next, PyThreadState, next);
  O(thread_ident, PyThreadState, thread_id);
#if V < 0x030b0000
  O(thread_frame, PyThreadState, frame);
  O(frame_previous, PyFrameObject, f_back);
  O(frame_code, PyFrameObject, f_code);
  O(frame_instruction, PyFrameObject, f_lasti);
  O(frame_line, PyFrameObject, f_lineno);
  P(frame_bytes, offsetof(PyFrameObject, f_lineno) + 4);
#else
  O(thread_native, PyThreadState, native_thread_id);
  O(frame_previous, _PyInterpreterFrame, previous);
#if V < 0x030d0000
  O(thread_frame, PyThreadState, cframe);
  O(cframe_frame, _PyCFrame, current_frame);
  P(has_cframe, 1);
  O(frame_code, _PyInterpreterFrame, f_code);
  O(frame_instruction, _PyInterpreterFrame, prev_instr);
#else
  O(thread_frame, PyThreadState, current_frame);
  O(frame_code, _PyInterpreterFrame, f_executable);
  O(frame_instruction, _PyInterpreterFrame, instr_ptr);
#endif
  O(frame_owner, _PyInterpreterFrame, owner);
#if V < 0x030c0000
  O(frame_is_entry, _PyInterpreterFrame, is_entry);
#endif
  P(frame_bytes, offsetof(_PyInterpreterFrame, localsplus));
#endif
  O(code_filename, PyCodeObject, co_filename);
  O(code_name, PyCodeObject, co_name);
#if V >= 0x030b0000
  O(code_qualname, PyCodeObject, co_qualname);
  O(code_bytes, PyCodeObject, co_code_adaptive);
#else
  O(code_qualname, PyCodeObject, co_name);
  O(code_object, PyCodeObject, co_code);
#endif
  O(code_linetable, PyCodeObject, co_linetable);
  O(code_firstline, PyCodeObject, co_firstlineno);
  O(code_names, PyCodeObject, co_names);
  O(code_consts, PyCodeObject, co_consts);
  O(object_type, PyObject, ob_type);
  O(object_size, PyVarObject, ob_size);
  O(bytes_data, PyBytesObject, ob_sval);
  O(text_length, PyASCIIObject, length);
  O(text_state, PyASCIIObject, state);
  P(text_ascii_bytes, sizeof(PyASCIIObject));
#if V >= 0x030b0000
  O(code_firsttraceable, PyCodeObject, _co_firsttraceable);
#endif
#if V >= 0x030c0000
  O(code_version, PyCodeObject, co_version);
#endif
  P(first_shim_owner, V >= 0x030c0000 ? 3 : 255);
  O(text_hash, PyASCIIObject, hash);
  P(text_compact_bytes, sizeof(PyCompactUnicodeObject));
  P(text_kind_shift, kind_shift());
  printf("\n    return true;\n");
  return 0;
}
"""


def row(include: Path) -> str:
    """One case of `set_compiled_offsets`, from the headers under `include`."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(PROBE)
        command = ["cc", "-w", f"-I{include}", f"-I{include / 'internal'}", str(source), "-o", str(program)]
        subprocess.run(command, check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print("// Written by generate_offsets.py from the interpreters' own headers; do not edit.")
    for include in sys.argv[1:]:
        print(row(Path(include)), end="")


if __name__ == "__main__":
    main()
