"""Which function an id of a log is: from the instrumented program's `xray_instr_map`, or llvm-xray extract's YAML."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpsight.device_code.elf import Elf

_SLED = np.dtype(
    [
        ("address", "<u8"),
        ("function", "<u8"),
        ("kind", "u1"),
        ("always", "u1"),
        ("version", "u1"),
        ("pad", "V13"),
    ]
)
_YAML = re.compile(r"\{\s*id:\s*(\d+),.*?function-name:\s*(?:'((?:[^']|'')*)'|([^,}]*?))\s*,")


def read(path: Path) -> dict[int, str]:
    """Names by function id.

    Raises:
        ElfError: when the file is neither an instrumented program nor the YAML of `llvm-xray extract -s`.
    """
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            text = path.read_text("utf-8", "replace")
            return {
                int(i): (quoted.replace("''", "'") or plain)
                for i, quoted, plain in _YAML.findall(text)
                if quoted or plain
            }
    elf = Elf.open(path)
    index = elf.by_name.get("xray_instr_map")
    if index is None:
        return {}
    raw = elf.contents(index).tobytes()
    rows = np.frombuffer(raw, _SLED, len(raw) // _SLED.itemsize)
    # From version 2 on, both addresses are relative to their own position.
    begin = int(elf.sections["addr"][index]) + np.arange(len(rows), dtype=np.uint64) * np.uint64(
        _SLED.itemsize
    )
    relative = np.where(rows["version"] >= 2, begin + np.uint64(8), np.uint64(0)).astype(np.uint64)
    functions = rows["function"] + relative
    names = {int(value): elf.symbol_name(i) for i, value in enumerate(elf.symbols["value"].tolist())
             if int(elf.symbols["info"][i]) & 15 == 2}  # fmt: skip
    found: dict[int, str] = {}
    current, number = None, 0
    for address in functions.tolist():  # ids count functions in the order of the map
        if address != current:
            current, number = address, number + 1
            found[number] = names.get(address, f"{address:#x}")
    return found
