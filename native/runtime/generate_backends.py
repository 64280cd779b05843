"""Writes backends.h from warpsight_plugins/backends.py: generate_backends.py BACKENDS.py OUTPUT.h.

It has the numbers of backends and of their functions, and a hook for each recorder below native/.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any


def load(path: Path) -> tuple[Any, ...]:
    """Import the table from its source tree: nothing is installed while building, and nothing else is needed."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.resolve().parents[1]))
    rows: tuple[Any, ...] = importlib.import_module("warpsight_plugins.backends").BACKENDS
    return tuple(row for row in rows if row.in_process)


def header(rows: tuple[Any, ...]) -> str:
    """The whole file."""
    numbers = [f"constexpr uint8_t kBackend{row.name.capitalize()} = {row.platform};\n" for row in rows]
    numbers += [
        f"constexpr uint16_t kApi{one.name.capitalize()} = {one.domain};\n"
        for row in rows
        for one in row.functions
    ]
    hooks = [f"__attribute__((weak)) void register_{row.name}_backend(bool beginning);\n" for row in rows]
    calls = [f"  if (register_{row.name}_backend) register_{row.name}_backend(beginning);\n" for row in rows]
    inner = ", ".join(f'"{library}"' for row in rows for library in row.callback_libraries)
    return f"""// Generated from warpsight_plugins/backends.py by generate_backends.py; do not edit.
#pragma once
#include <cstdint>

namespace warpsight {{

// In rows of devices and contexts, and in rows of calls.
{"".join(numbers)}
// Weak: a build without a backend's headers lacks its recorder.
{"".join(hooks)}
// Lets every backend beside CUDA and OpenCL begin to record where its runtime is loaded: when a recording begins,
// and on every tick of it.
inline void register_backends(bool beginning) {{
{"".join(calls)}}}

// Libraries that stand between a program and our callbacks: their frames are no caller's.
constexpr const char* kCallbackLibraries[] = {{{inner}}};

}}  // namespace warpsight
"""


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(header(load(Path(sys.argv[1]))))
