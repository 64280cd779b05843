"""The source files named in a module's line table, located on this machine."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.line_table import sequences
from warpsight.errors import WarpsightError

#: Files of one module's line table that come along, and bytes of one, at most.
_MOST_SOURCES, _SOURCE_LIMIT = 64, 4 << 20


def source_files(image: bytes) -> list[str]:
    """The files in a cubin's line table; empty without a valid table."""
    try:
        table = Cubin(image, "module").elf.bytes_of(".debug_line")
    except WarpsightError:
        return []
    named = (
        seen.files[row.file].path
        for seen in sequences(table, [])
        for row in seen.rows
        if 0 < row.file < len(seen.files)
    )
    return list(islice((path for path in dict.fromkeys(named) if path.startswith("/")), _MOST_SOURCES))


def text_of(path: str) -> bytes:
    """A source file's text; empty if the file is missing or too large."""
    try:
        if os.stat(path).st_size > _SOURCE_LIMIT or not os.path.isfile(path):
            return b""
        return Path(path).read_bytes()
    except OSError:
        return b""
