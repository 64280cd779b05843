"""Call sites from a kernel's PTX file, for compilers that leave them out of the cubin.

Triton's LLVM gives `.loc` without `inlined_at`; the call sites are in a comment that does not survive assembly:
`.loc 1 10 37 // lock.py:10:37 @[ lock.py:17:12 ]`. The PTX is in Triton's cache, `<kernel>.ptx` beside the cubin. Its lines are
those of the cubin's own `.nv_debug_ptx_txt`, so the cubin's table of instructions and PTX lines joins both, and a file from
another build is recognized and ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from warpsight.device_code.debug_info.inline_chain import Frame, find_source

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')
_AT = re.compile(r"@\[\s*(.+?):(\d+):(\d+)")
_LARGEST = 256 << 20
#: Minimum share of lines with instructions that must match between the file and the cubin.
_SAME = 0.9


def _triton_caches() -> list[Path]:
    """Folders that may contain Triton's PTX."""
    own = os.environ.get("TRITON_CACHE_DIR")
    return [Path(own)] if own else [Path(os.environ.get("TRITON_HOME", Path.home()), ".triton", "cache")]


def candidates(kernel: str, paths: Iterable[Path]) -> Iterator[Path]:
    """Possible PTX files of a kernel: the given files, files with its name in the given folders, Triton's cache."""
    given = list(paths)
    for path in given:
        if path.is_dir():
            yield from sorted(path.rglob(f"{kernel}.ptx"))
        else:
            yield path
    if not given:
        for cache in _triton_caches():
            if cache.is_dir():
                yield from sorted(cache.glob(f"*/{kernel}.ptx"))


def call_sites(
    kernel: str, embedded: bytes, paths: Iterable[Path], sources: tuple[str, ...]
) -> list[tuple[Frame, ...]] | None:
    """The call chain of every PTX line, counted from 1, from the file behind the embedded PTX, or None.

    Lines without a position have an empty chain. The outermost frame's function is the kernel; the others' are taken
    from the Python source where it is here, and are empty otherwise.
    """
    for path in candidates(kernel, paths):
        try:
            if path.stat().st_size > _LARGEST:
                continue
            text = path.read_text("utf-8", "replace")
        except (OSError, ValueError):
            continue
        if matches(text, embedded):
            return parse(text, kernel, sources)
    return None


def matches(text: str, embedded: bytes) -> bool:
    """Whether a PTX file is the source of a cubin's embedded PTX."""
    lines, same, total = text.splitlines(), 0, 0
    for number, line in enumerate(embedded.split(b"\0")):
        wanted = b" ".join(line.split())
        if b";" not in wanted:
            continue
        total += 1
        if number < len(lines):
            there = " ".join(lines[number].split("//")[0].split()).encode()
            same += there == wanted
    return total > 0 and same >= _SAME * total


def parse(text: str, kernel: str, sources: tuple[str, ...] = ()) -> list[tuple[Frame, ...]]:
    """The chain of each line of a PTX file, counted from 1; `sources` are folders with Python files."""
    lines = text.splitlines()
    files = dict(filter(None, map(_file, lines)))
    by_name = {Path(path).name: path for path in files.values()}
    found: list[tuple[Frame, ...]] = [()]
    current: tuple[Frame, ...] = ()
    for line in lines:
        loc = _LOC.match(line)
        if loc:
            positions = [(files.get(int(loc[1]), ""), int(loc[2]), int(loc[3]))]
            comment = line.split("//", 1)[1] if "//" in line else ""
            positions += [(by_name.get(Path(f).name, f), int(n), int(c)) for f, n, c in _AT.findall(comment)]
            current = tuple(
                Frame(
                    function_around(find_source(file, sources) or file, number)
                    if i + 1 < len(positions)
                    else kernel,
                    file,
                    number,
                    column,
                )
                for i, (file, number, column) in enumerate(positions)
            )
        found.append(current)
    return found


def _file(line: str) -> tuple[int, str] | None:
    match = _FILE.match(line)
    if match is None:
        return None
    return int(match[1]), f"{match[2]}/{match[3]}" if match[3] and not match[3].startswith("/") else match[
        3
    ] or match[2]


@lru_cache(maxsize=256)
def function_around(path: str, line: int) -> str:
    """The innermost Python function around a line; empty if the source is not on this machine or is not Python."""
    if not path.endswith(".py"):
        return ""
    best, begin = "", 0
    for name, first, last in _functions(path):
        if first <= line <= last and first > begin:
            best, begin = name, first
    return best


@lru_cache(maxsize=32)
def _functions(path: str) -> tuple[tuple[str, int, int], ...]:
    import ast

    try:
        if not Path(path).is_file() or Path(path).stat().st_size > _LARGEST:
            return ()
        tree = ast.parse(Path(path).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(
        (node.name, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    )
