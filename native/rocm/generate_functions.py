"""Writes hip_functions.h from the list of HIP's functions; run by CMake: generate_functions.py LIST.txt OUTPUT.h."""

from __future__ import annotations

import sys
from pathlib import Path


def header(text: str) -> str:
    """The C++ header of a list with one `number name` per line, numbers from 0 without gaps."""
    pairs = [line.split() for line in text.splitlines()]
    if [number for number, _ in pairs] != [str(n) for n in range(len(pairs))]:
        raise SystemExit("the numbers of HIP's functions have gaps")
    rows = "".join(f'    "{name}",\n' for _, name in pairs)
    return (
        "// Generated from warpsight_plugins/rocm/hip_functions.txt. Do not edit.\n#pragma once\n\n"
        f"namespace warpsight::rocm {{\n\nconstexpr const char* kHipFunctions[] = {{\n{rows}}};\n\n}}\n"
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(header(Path(sys.argv[1]).read_text()))
