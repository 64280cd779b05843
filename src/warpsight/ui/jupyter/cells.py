"""Notebook cells in a trace, named as IPython names them in tracebacks: `load (In[3]:22)`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Protocol

from warpsight.model.schema import TABLES
from warpsight.model.storage import store


class Compiler(Protocol):
    """The part of IPython's compiler that knows the cells."""

    def format_code_name(self, name: str, /) -> tuple[str, str] | None:
        """A label and the name of a cell, by its temporary file name; None for other files."""


def running_cell(compiler: Compiler) -> int | None:
    """The number of the cell that the caller runs in, if any."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        number = _number(compiler, frame.f_code.co_filename)
        if number is not None:
            return number
        frame = frame.f_back
    return None


def name_cells(folder: Path, compiler: Compiler, last: int | None) -> None:
    """Replace the temporary file names of cells in a finished trace by the cells' numbers.

    Args:
        folder: The trace.
        compiler: The compiler of the shell that ran the cells.
        last: The number of the recorded cell; IPython may number the code that runs inside it later.
    """
    import pyarrow as pa

    table = TABLES["frame"]
    for part in store.parts(folder, table.name):
        frames = store.read_part(table, part)
        files = frames.column("file").cast(pa.string()).to_pylist()
        numbers = {file: _number(compiler, file) for file in set(files) if file}
        cells = {file: f"In[{number if last is None else min(number, last)}]"
                 for file, number in numbers.items() if number is not None}  # fmt: skip
        if not cells:
            continue
        place = frames.column_names.index("file")
        named = pa.array([cells.get(file, file) for file in files], pa.string())
        changed = frames.set_column(place, "file", named.cast(frames.schema.field("file").type))
        store.write_part(part, table, changed)


def _number(compiler: Compiler, file: str) -> int | None:
    known = compiler.format_code_name(file)
    found = re.search(r"\d+", known[1]) if known is not None else None
    return int(found[0]) if found is not None else None
