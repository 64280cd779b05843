"""Writes layout.h from warpsight/capture/segments/layout.py; run by CMake: generate_layout.py LAYOUT.py OUTPUT.h."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

C_TYPES = {
    "u1": "uint8_t",
    "i1": "int8_t",
    "u2": "uint16_t",
    "i2": "int16_t",
    "u4": "uint32_t",
    "i4": "int32_t",
    "u8": "uint64_t",
    "i8": "int64_t",
    "f8": "double",
}


def load(path: Path) -> ModuleType:
    """Import the layout from its source tree: nothing is installed while building, and nothing else is needed."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.resolve().parents[3]))
    return importlib.import_module("warpsight.capture.segments.layout")


def struct(layout: Any) -> str:
    """One C++ struct, with its kind and size when it is a row."""
    lines = [f"struct {layout.name} {{"]
    if layout.kind:
        lines.append(f"  static constexpr uint16_t kKind = {layout.kind};")
        lines.append(f"  static constexpr uint32_t kRingBlocks = {layout.ring_blocks};")
    for field in layout.fields:
        size = f"[{field.count}]" if field.count > 1 else ""
        lines.append(f"  {C_TYPES[field.type]} {field.name}{size};  // {field.meaning}")
    lines.append("};")
    lines.append(f'static_assert(sizeof({layout.name}) == {layout.size}, "{layout.name}");')
    return "\n".join(lines)


def constant(name: str) -> str:
    """BLOCK_BYTES -> kBlockBytes."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def main() -> None:
    layout = load(Path(sys.argv[1]))
    parts = [
        "// Generated from layout.py; do not edit.",
        "#pragma once",
        "#include <cstdint>",
        "namespace warpsight {",
    ]
    parts += [
        f"constexpr uint64_t {constant(name)} = {value:#x}ull;" for name, value in layout.CONSTANTS.items()
    ]
    parts += [
        struct(s) for s in (layout.BLOCK_HEADER, layout.ARENA_HEADER, layout.RING_DESCRIPTOR, *layout.RECORDS)
    ]
    blocks = "\n".join(f"    case {r.kind}: return {r.ring_blocks};" for r in layout.RECORDS)
    parts.append(
        f"constexpr uint32_t ring_blocks(uint16_t kind) {{\n  switch (kind) {{\n{blocks}\n    default: return 4;\n  }}\n}}"
    )
    sizes = "\n".join(f"    case {r.kind}: return {r.size};" for r in layout.RECORDS if not r.variable)
    parts.append(
        f"constexpr uint32_t row_size(uint16_t kind) {{\n  switch (kind) {{\n{sizes}\n    default: return 0;\n  }}\n}}"
    )
    definitions = " || ".join(f"kind == {r.kind}" for r in layout.RECORDS if r.definition)
    parts.append(f"constexpr bool is_definition(uint16_t kind) {{ return {definitions}; }}")
    parts.append("}  // namespace warpsight")
    Path(sys.argv[2]).write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
