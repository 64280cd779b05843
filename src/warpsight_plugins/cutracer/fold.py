"""A few fields of every record, folded by all cores into counts and last values, without columns.

Every line is decoded as JSON, so errors are noticed as in :class:`~.trace_file.TraceFile`, but only the requested fields become
objects. A large uncompressed file is cut at line borders into as many parts as there are cores, each folded by a forked child. A
file with an unusual record (a field of another type, an unknown record type, damage) is left to :class:`~.trace_file.TraceFile`,
which reports the error or reads it anyway.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, pairwise
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

import msgspec

from warpsight.formats.source import Source
from warpsight_plugins.cutracer import records
from warpsight_plugins.cutracer.header import CutracerHeader

S = TypeVar("S")
#: `fold(state, rows, lines)`: put the rows of one chunk, in the order of the file, into the state. Rows have the fields as
#: attributes, None where a record lacks one; lists come as tuples. `lines()` gives the line of each row. Describing records are
#: not among them.
Fold = Callable[[S, Sequence[Any], Callable[[], Sequence[bytes]]], None]

#: Rows decoded at once: rows and text stay in the processor's cache.
CHUNK_BYTES = 512 << 10
#: Less than this is not worth a child.
PART_BYTES = 16 << 20
_CUT_WINDOW = 1 << 16
_TYPE = attrgetter("type")


class Unusual(Exception):
    """A record is unusual, or a fold gives up: use the general reader."""


@dataclass
class _Part(Generic[S]):
    state: S
    described: list[dict[str, Any]] = field(default_factory=list)
    cut: bool = False


@dataclass(frozen=True)
class Folded(Generic[S]):
    """States of the file's parts, in order, the describing records, and gaps of the file."""

    states: list[S]
    header: CutracerHeader
    notes: list[str]


def fold(
    source: Source, fields: Sequence[str], start: Callable[[], S], take: Callable[[CutracerHeader], Fold[S]]
) -> Folded[S] | None:
    """Fold every record; None if the file has an unusual one.

    Args:
        source: An NDJSON trace, compressed or not.
        fields: Fields of :data:`records.FIELDS` that the fold needs.
        start: Makes an empty state.
        take: Makes the fold, given the first line's description of the kernel.
    """
    if not set(fields) <= set(records.FIELDS):
        return None
    header = CutracerHeader()
    try:
        first = _first_line(source, header)
        folder = _Folder(fields, start, take(header))
        with _no_collection():
            parts = [folder.stream(source, first)] if source.compression else _in_parts(folder, source, first)
    except Unusual:
        return None
    for record in (record for part in parts for record in part.described):
        if record.get("type") == "kernel_metadata":
            return None
        header.take(record)
    if parts[-1].cut:
        source.ended_early(f"the last record (line {_lines(source)}) is cut off")
    notes = [f"{source.name}: {source.damage}; records up to there were read"] if source.truncated else []
    return Folded([part.state for part in parts], header, [*notes, *header.notes()])


def _first_line(source: Source, header: CutracerHeader) -> int:
    """Take the kernel from the first line that is not blank; bytes up to there, 0 when it is not a kernel's."""
    head = source.head.lstrip()
    if b"\n" in head and b"kernel_metadata" not in head[: head.find(b"\n")]:
        return 0
    with source.open() as file:
        taken = 0
        while line := file.readline():
            taken += len(line)
            if line.strip():
                break
    try:
        record = msgspec.json.decode(line)
        if isinstance(record, dict) and record.get("type") == "kernel_metadata" and line.endswith(b"\n"):
            header.take(record)
            return taken
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError, RecursionError):
        raise Unusual from None
    return 0


class _Folder(Generic[S]):
    """Decodes chunks and folds their rows."""

    def __init__(self, fields: Sequence[str], start: Callable[[], S], take: Fold[S]) -> None:
        kinds = [(name, _kind(name) | None, None) for name in dict.fromkeys(("type", *fields))]
        row = msgspec.defstruct(
            "Row", kinds, gc=False
        )  # not tracked by the garbage collector: there are millions
        self._decode = msgspec.json.Decoder(row).decode_lines
        self._start = start
        self._take = take

    def stream(self, source: Source, first: int) -> _Part[S]:
        """Fold a file that can only be read from its beginning."""
        part = _Part(self._start())
        rest = b""
        with source.open() as file:
            file.read(first)
            while block := file.read(CHUNK_BYTES):
                data = rest + block
                end = data.rfind(b"\n") + 1
                self._chunk(part, data[:end])
                rest = data[end:]
        self._tail(part, rest)
        return part

    def range(self, path: os.PathLike[str], begin: int, end: int) -> _Part[S]:
        """Fold the bytes from `begin` to `end` of a file; both are line borders, or the file's end."""
        part = _Part(self._start())
        buffer = bytearray(
            min(CHUNK_BYTES, max(end - begin, 1))
        )  # one for all chunks: new memory is slow memory
        have = 0
        with open(path, "rb", buffering=0) as file:
            file.seek(begin)
            while begin < end:
                if have == len(buffer):  # a line as long as the buffer
                    buffer += bytes(len(buffer))
                with memoryview(buffer) as view:
                    got = file.readinto(view[have : have + end - begin]) or 0
                    if not got:
                        break
                    begin, have = begin + got, have + got
                    cut = buffer.rfind(b"\n", 0, have) + 1
                    if cut:
                        self._chunk(part, view[:cut])
                buffer[: have - cut] = buffer[cut:have]
                have -= cut
        self._tail(part, bytes(buffer[:have]))
        return part

    def _chunk(self, part: _Part[S], data: bytes | memoryview) -> None:
        try:
            rows: list[Any] = self._decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Unusual from None
        describing = not records.DESCRIBING.isdisjoint(map(_TYPE, rows))
        if describing:
            lines = _lines_of(data, len(rows))
            part.described += [
                msgspec.json.decode(line)
                for line, row in zip(lines, rows, strict=True)
                if row.type in records.DESCRIBING
            ]
        chosen = [row.type not in records.DESCRIBING for row in rows] if describing else []
        events = list(compress(rows, chosen)) if describing else rows

        def own() -> Sequence[bytes]:
            whole = _lines_of(data, len(rows))
            return list(compress(whole, chosen)) if describing else whole

        self._take(part.state, events, own)

    def _tail(self, part: _Part[S], line: bytes) -> None:
        """The last line if it has no newline: a whole record, or part of one after a hang."""
        if not line.strip():
            return
        try:
            whole = isinstance(msgspec.json.decode(line), dict)
        except (msgspec.DecodeError, ValueError, RecursionError):
            whole = False
        if whole:
            self._chunk(part, line)
        part.cut = not whole


def _lines_of(data: bytes | memoryview, count: int) -> list[bytes]:
    """The lines of a chunk's records.

    Raises:
        Unusual: when lines and records are not one to one.
    """
    lines = [line for line in bytes(data).split(b"\n") if line.strip()]
    if len(lines) != count:
        raise Unusual
    return lines


def _kind(name: str) -> Any:
    if name == "type":  # one object per type instead of one per record
        return Literal.__getitem__((*records.EVENTS, *sorted(records.DESCRIBING), "kernel_launch"))
    kind = records.FIELDS[name]
    return tuple[int, ...] if kind == list[int] else kind


def _lines(source: Source) -> int:
    """Number of the last line."""
    with source.open() as file:
        return 1 + sum(block.count(b"\n") for block in iter(lambda: file.read(CHUNK_BYTES), b""))


def _in_parts(folder: _Folder[S], source: Source, first: int) -> list[_Part[S]]:
    borders = _borders(source, first)
    children: list[_Child[_Part[S]]] = []
    try:
        for begin, end in pairwise(borders[1:]):
            children.append(_Child(partial(folder.range, source.path, begin, end)))
        own = folder.range(source.path, borders[0], borders[1])
        return [own, *(child.result() for child in children)]
    finally:
        for child in children:
            child.end()


def _borders(source: Source, first: int) -> list[int]:
    """Where parts begin, and the end."""
    size = source.size
    count = min(_cores(), max((size - first) // PART_BYTES, 1), 16)
    borders = [first]
    with source.path.open("rb", buffering=0) as file:
        for number in range(1, count):
            at = first + (size - first) * number // count
            file.seek(at)
            window = file.read(_CUT_WINDOW)
            if (newline := window.find(b"\n")) >= 0 and at + newline + 1 > borders[-1]:
                borders.append(at + newline + 1)
    return [*borders, size]


def _cores() -> int:
    """The number of processes to use: one if forking is unsafe, with other Python threads or outside Linux."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return 1
    return len(os.sched_getaffinity(0))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable the garbage collector, which would visit lists of rows that cannot contain a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Child(Generic[S]):
    """A forked process that computes one value and ends."""

    def __init__(self, work: Callable[[], S]) -> None:
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            # NumPy's idle threads, if it is loaded: the child calls none of their code.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            _answer(work, write)
        os.close(write)

    def result(self) -> S:
        """The value.

        Raises:
            Unusual: when the child met an unusual record, or did not get to its end.
        """
        with open(self._read, "rb", closefd=False) as pipe:
            answer = pipe.read()
        if not answer:
            raise Unusual
        value: S = pickle.loads(answer)  # our own child's
        return value

    def end(self) -> None:
        """Stop it if it is still running, and drop it."""
        os.close(self._read)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _answer(work: Callable[[], Any], write: int) -> None:
    """In the child: write the value, or nothing, and exit without the parent's exit handlers."""
    code = 1
    try:
        answer = pickle.dumps(work(), pickle.HIGHEST_PROTOCOL)
        with open(write, "wb", closefd=False) as pipe:
            pipe.write(answer)
        code = 0
    except BaseException:  # the parent reads the file in the general way and reports what is wrong
        code = 1
    finally:
        os._exit(code)
