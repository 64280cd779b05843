"""From an address in device code to source lines: the whole chain of inlined calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from warpsight.device_code.debug_info.line_table import LineSequence
from warpsight.device_code.demangle import demangle
from warpsight.device_code.elf import readable

#: Files with longer lines are not source files.
_LONGEST_LINE = 2000
_LARGEST_SOURCE = 64 << 20
#: Only source files are ever read: a line table comes from an untrusted file, and must not choose what appears in a page or an
#: answer.
_SUFFIXES = re.compile(
    r"\.(?:c|cc|cl|cpp|cxx|cuh?|h|hh|hip|hpp|hxx|ii?|in[cl]|ipp|ixx|mlir|ptx|pyx?|tcc|tpp)"
)
#: Standard headers have no suffix.
_HEADERS = "include"


@dataclass(frozen=True)
class Frame:
    """One frame of a source chain.

    Attributes:
        function: the function the line is in, demangled; empty when nothing names it.
        file: its path as the compiler saw it; line: counted from 1; column: 0 when not known.
    """

    function: str
    file: str
    line: int
    column: int = 0

    @property
    def text(self) -> str | None:
        """The source line, stripped; None if the file is missing or shorter."""
        return source_line(self.file, self.line)

    def __str__(self) -> str:
        return f"{self.function or '?'} at {self.file}:{self.line}"


@dataclass(frozen=True)
class SourceChain:
    """The frames of one instruction, innermost first.

    Attributes:
        frames: the best that is known.
        raw: the chain according to the line table alone; the same object as `frames` unless `refined`.
        refined: whether the PTX kept in the cubin corrected the line table (see :mod:`warpsight.device_code.debug_info.ptx`).
        origin: `line table`, `ptx`, `ptx file` or `dwarf`: what the call sites come from.
    """

    frames: tuple[Frame, ...]
    raw: tuple[Frame, ...]
    refined: bool = False
    origin: str = "line table"

    @property
    def innermost(self) -> Frame:
        """The frame of the instruction itself."""
        return self.frames[0]


def frames_of(
    sequence: LineSequence, index: int, name_at: Callable[[int], str], function: str
) -> tuple[Frame, ...]:
    """The frames of one row of a line table.

    Args:
        sequence: the function's rows.
        index: which row.
        name_at: the string of `.debug_str` at an offset.
        function: name of the function that everything is inlined into, as it is in the symbol table.
    """
    frames = []
    for row in sequence.chain(index):
        mangled = name_at(row.function) if row.function >= 0 else function
        frames.append(Frame(demangle(mangled), sequence.file(row.file).path, row.line, row.column))
    return tuple(frames)


@lru_cache(maxsize=64)
def _lines(path: str) -> tuple[str, ...] | None:
    try:
        if not Path(path).is_file() or Path(path).stat().st_size > _LARGEST_SOURCE:
            return None
        lines = Path(path).read_bytes().splitlines()
    except (OSError, ValueError):
        return None
    return tuple(readable(line.expandtabs(4)) for line in lines)


@lru_cache(maxsize=1024)
def find_source(path: str, folders: tuple[str, ...]) -> str | None:
    """Find a source file on this machine: at its path, otherwise under one of the folders by the longest matching suffix."""
    parts = Path(path).parts
    suffix = Path(path).suffix.lower()
    if not _SUFFIXES.fullmatch(suffix) and (suffix or _HEADERS not in parts):
        return None
    try:
        if Path(path).is_file():
            return path
        for begin in range(1, len(parts)):
            for folder in folders:
                candidate = Path(folder, *parts[begin:])
                if ".." not in parts[begin:] and candidate.is_file():
                    return str(candidate)
    except (OSError, ValueError):
        pass
    return None


def source_line(path: str, line: int, folders: tuple[str, ...] = (), *, indented: bool = False) -> str | None:
    """A line of a source file on this machine, or None.

    Args:
        path: its path as the compiler saw it.
        line: counted from 1.
        folders: where else to look, see :func:`find_source`.
        indented: keep the line's indentation.
    """
    found = find_source(path, folders) if path else None
    lines = _lines(found) if found else None
    if lines is None or not 1 <= line <= len(lines):
        return None
    text = lines[line - 1].rstrip()[:_LONGEST_LINE]
    return text if indented else text.strip()
