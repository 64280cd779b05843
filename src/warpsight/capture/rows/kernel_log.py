"""The kernel log: one JSON line per kernel while the program runs, in CUTracer's layout.

`kernel_launch` lines name the kernel, its shape, stream and stack; with `dedup` a `callstack_def` line before the
first use holds each stack once. `cli/schemas/kernel_log.json` describes both. The converter appends to the file as
it converts segments. What was appended after its last commit is cut off again when a conversion is repeated, so a
crash of the converter costs no line and writes none twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.capture.columns import Nullable
from warpsight.capture.rows.kernel_log_text import LogTexts
from warpsight.model.definitions import Definitions
from warpsight.model.storage import manifest

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_STATE = "kernel_log.json"
#: Bytes of lines made at once: bounds memory however long the stacks are.
_CHUNK_BYTES = 32 << 20
_LINE_BYTES = 64  # bytes of a line besides its tail: type and two numbers
_DEFINITION = b'{"type":"callstack_def","callstack_id":"'


def configure(raw: Path, path: str, stacks: str) -> None:
    """Make the conversion of a recording write a kernel log to `path`, an existing file; once."""
    if (raw / _STATE).exists():  # an earlier converter has begun with it
        return
    manifest.write_json(raw / _STATE, {"path": path, "stacks": stacks, "states": {}})


class KernelLog:
    """The log of one recording. If it cannot be written, it ends with a loss row and the conversion continues."""

    @classmethod
    def of(cls, raw: Path, definitions: Definitions, part: int) -> KernelLog | None:
        """The log that a recording requested, in its state at the commit of `part`, or None."""
        try:
            settings = json.loads((raw / _STATE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return cls(raw, settings, definitions, part)

    def __init__(self, raw: Path, settings: Mapping[str, Any], definitions: Definitions, part: int) -> None:
        """Use :meth:`of`."""
        self._raw = raw
        self._path = str(settings["path"])
        self._stacks = str(settings["stacks"])
        self._states: dict[str, list[int]] = dict(settings["states"])
        self._offset, self._launches = self._states.get(str(part), [0, 0])
        self._texts = LogTexts(definitions, self._stacks)
        self._problem = ""
        self._file = -1
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
            os.ftruncate(self._file, self._offset)
            self._texts.defined = set(self._defined())
        except OSError as error:
            self._fail(error)

    def _defined(self) -> Iterator[str]:
        """Ids of the stacks that the file already defines."""
        with open(os.dup(self._file), "rb") as lines:
            for line in lines:
                if line.startswith(_DEFINITION):
                    yield line[len(_DEFINITION) :].partition(b'"')[0].decode()

    def add(self, arena: Arena, count: int, values: Mapping[str, Any]) -> None:
        """Append a line for each of `count` rows of table `kernel`; `values` are its columns."""
        if self._problem:
            return self._report(arena)
        columns = {name: _numbers(values.get(name), count) for name in _COLUMNS}
        kept = np.flatnonzero(
            columns.pop("graph_level") == 0
        )  # a graph that was not expanded is not a kernel
        start, correlation = columns.pop("start")[kept], columns.pop("correlation")[kept]
        order = kept[np.lexsort((start, correlation))]
        try:
            self._append(arena, {name: column[order] for name, column in columns.items()},
                         _numbers(values.get("correlation"), count)[order])  # fmt: skip
        except OSError as error:
            self._fail(error)
            self._report(arena)

    def _append(self, arena: Arena, columns: dict[str, Array], correlation: Array) -> None:
        codes, first = _combinations(list(columns.values()), len(correlation))
        if not len(first):
            return
        keys = np.stack([column[first] for column in columns.values()], axis=1).tolist()
        tails, definitions = self._texts.tails(arena, keys)
        self._write("".join(definitions).encode())
        table = pa.array(tails, pa.large_string())
        rows = max(1, _CHUNK_BYTES // (_LINE_BYTES + max(map(len, tails))))
        for begin in range(0, len(correlation), rows):
            chunk = slice(begin, min(begin + rows, len(correlation)))
            ids = np.arange(self._launches + 1, self._launches + 1 + chunk.stop - chunk.start)
            self._write(_lines(ids, table.take(pa.array(codes[chunk])), correlation[chunk]))
            self._launches += len(ids)

    def _write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while len(view):
            written = os.write(self._file, view)
            self._offset += written
            view = view[written:]

    def commit(self, part: int) -> None:
        """Remember the file's length before the conversion commits `part`, and the one before that; a crash goes back to it."""
        last = max((key for key in self._states if int(key) < part), key=int, default=None)
        kept = {} if last is None else {last: self._states[last]}
        self._states = {**kept, str(part): [self._offset, self._launches]}
        content = {"path": self._path, "stacks": self._stacks, "states": self._states}
        manifest.write_json(self._raw / _STATE, content)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _fail(self, error: OSError) -> None:
        self._problem = f"the kernel log {self._path} cannot be written: {error.strerror or error}"
        self.close()

    def _report(self, arena: Arena) -> None:
        """Report once that the log ends here."""
        if self._problem != _REPORTED:
            arena.loss.add("kernel log", self._problem, 1, kind="kernel")
        self._problem = _REPORTED


_REPORTED = "reported"
#: The columns of table `kernel` used for a line; those that :class:`LogTexts` takes come first, in order.
_COLUMNS = ("name_id", "shape_id", "stream", "stack", "module", "graph_level", "start", "correlation")


def _numbers(value: object, count: int) -> Array:
    """A column as numbers, 0 where it is null or absent."""
    if isinstance(value, Nullable):
        numbers = np.asarray(value.values)
        return numbers if value.null is None else np.where(value.null, 0, numbers)
    return np.broadcast_to(np.asarray(0 if value is None else value), (count,))


def _combinations(columns: list[Array], count: int) -> tuple[Array, Array]:
    """The distinct combination of values of each row, and the first row of each combination."""
    codes = np.zeros(count, np.int64)
    distinct = min(count, 1)
    for column in columns:
        encoded = pa.array(np.ascontiguousarray(column)).dictionary_encode()
        pairs = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        joined = pa.array(pairs).dictionary_encode()
        codes, distinct = joined.indices.to_numpy().astype(np.int64), len(joined.dictionary)
    first = np.zeros(distinct, np.int64)
    first[codes[::-1]] = np.arange(count - 1, -1, -1)  # the last assignment wins: the first row
    return codes, first


def _lines(ids: Array, tails: pa.Array, correlation: Array) -> memoryview:
    """Lines of kernels, ready to be written."""
    import pyarrow.compute as pc  # not needed, and so not loaded, without a log

    begin, end = (
        pa.scalar(text, pa.large_string()) for text in ('{"type":"kernel_launch","kernel_launch_id":', "}\n")
    )
    numbers = (pa.array(n).cast(pa.large_string()) for n in (ids, np.ascontiguousarray(correlation)))
    number, correlated = numbers
    text = pc.binary_join_element_wise(
        begin, number, tails, correlated, end, pa.scalar("", pa.large_string())
    )
    places = np.frombuffer(text.buffers()[1], np.int64)[text.offset : text.offset + len(text) + 1]
    return memoryview(text.buffers()[2])[int(places[0]) : int(places[-1])]
