"""Makes a capsule from a process's output: contents are cut, searched, replaced if requested, and compressed in parallel."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from warpsight import _version
from warpsight.errors import WarpsightError
from warpsight.model.sharing import secrets
from warpsight.model.workers import processors
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.checks import CapsuleError, chunk_sizes
from warpsight.replay.capsule.store import Capsule, Writer
from warpsight.replay.sources import source_files, text_of

Words = npt.NDArray[np.uint64]
Line = dict[str, Any]
#: Chunks that wait to be compressed at most, so that memory stays bounded.
_AHEAD = 64
#: Maximum length of a string in a manifest.
_LONGEST_TEXT = 65_536


@dataclass(frozen=True)
class _Extents:
    """Stretches of addresses, in order and without overlap."""

    begins: Words
    ends: Words

    @classmethod
    def of(cls, lines: Sequence[Line]) -> tuple[_Extents, npt.NDArray[np.intp]]:
        """The extents of lines with `address` and `size`, and the index of each among the lines."""
        begins = np.array([line["address"] for line in lines], np.uint64)
        order = np.argsort(begins)
        sizes = np.array([line["size"] for line in lines], np.uint64)
        return cls(begins[order], (begins + sizes)[order]), order

    def find(self, words: Words) -> npt.NDArray[np.intp]:
        """The extent that each word points into, or -1."""
        if not len(self.begins):
            return np.full(len(words), -1, np.intp)
        at = np.searchsorted(self.begins, words, "right") - 1
        return np.where((at >= 0) & (words < self.ends[at]), at, -1)


def convert(
    data: Path, log: Sequence[Line], out: Path, values: str, command: Sequence[str], *, replace: bool = False
) -> Capsule:
    """Make the capsule `out` of a process's log and data.

    Raises:
        WarpsightError: when the process could not cut something out, or data is missing; the message says what.
    """
    _check_whole(log)
    writer = Writer(out, replace=replace)
    file = os.open(data, os.O_RDONLY)
    try:
        manifest = _Conversion(file, log, values, writer).manifest(command)
        return writer.finish(manifest)
    except (CapsuleError, msgspec.MsgspecError, KeyError) as error:
        raise WarpsightError(f"the parts do not make a capsule: {error}") from None
    finally:
        os.close(file)
        writer.abandon()


def last_range(log: Sequence[Line]) -> Sequence[Line]:
    """The lines of the launch or range that was kept, if each candidate was cut out; otherwise all lines."""
    begins = [i for i, line in enumerate(log) if line["kind"] == "range"]
    return log[begins[-1] :] if begins else log


def _check_whole(log: Sequence[Line]) -> None:
    for line in log:
        if line["kind"] == "refused":  # after the work was cut out
            raise WarpsightError(f"the capsule is incomplete: {line['why']}")
        if line["kind"] == "whole" and line["failed"]:
            raise WarpsightError(f"the capsule is incomplete: {line['failed']}")
    if not any(line["kind"] == "whole" for line in log):
        raise WarpsightError("the capsule is incomplete: the program ended before memory was written out")


class _Conversion:
    """One process's log on its way to a manifest."""

    def __init__(self, file: int, log: Sequence[Line], values: str, writer: Writer) -> None:
        self._file = file
        self._log = last_range(log)
        self._values = values
        self._writer = writer
        self._globals = self._lines("global")
        self._allocations = self._lines("allocation")
        self._global_extents, self._global_order = _Extents.of(self._globals)
        self._memory, _ = _Extents.of([*self._globals, *self._allocations])
        self._writers = {line["number"]: line["call"] for line in self._lines("writer")}
        self._offsets = {
            (line["of"], line["number"], line["when"]): line["offset"] for line in self._lines("contents")
        }

    def _lines(self, kind: str) -> list[Line]:
        return [line for line in self._log if line["kind"] == kind]

    def manifest(self, command: Sequence[str]) -> m.Manifest:
        """The manifest; its contents are written along the way."""
        device = dict(self._lines("device")[0])
        time = device.pop("time")
        device.pop("kind")
        device["limits"] = {int(limit): value for limit, value in device["limits"].items()}
        with ThreadPoolExecutor(processors()) as self._pool:
            allocations = [self._allocation(i, line) for i, line in enumerate(self._allocations)]
            return m.Manifest(
                format="warpsight capsule",
                version=m.VERSION,
                device=m.RecordedDevice(**device),
                chunk_bytes=self._writer.chunk_bytes,
                values=self._values,  # type: ignore[arg-type]
                warpsight=_version.__version__,
                command=[_printable(word) for word in secrets.arguments(list(command))],
                time=time,
                modules=[self._module(line) for line in self._lines("module")],
                globals=[self._global(i, line) for i, line in enumerate(self._globals)],
                functions=[_function(line) for line in self._lines("function")],
                allocations=sorted(allocations, key=lambda allocation: allocation.address),
                streams=[m.Stream(s["default"], s["priority"], s["flags"]) for s in self._lines("stream")],
                events=1 + max((line.get("event", -1) for line in self._lines("operation")), default=-1),
                graphs=[self._graph(line) for line in self._lines("graph")],
                operations=[self._operation(line) for line in self._lines("operation")],
                incomplete=[line["what"] for line in self._lines("incomplete")],
            )

    def _module(self, line: Line) -> m.LoadedModule:
        image = self._contents(line["offset"], line["size"], self._writer.put_chunk)
        return m.LoadedModule(
            "cubin", line["size"], image, self._sources(line) if self._values == "all" else []
        )

    def _sources(self, line: Line) -> list[m.ModuleSource]:
        """The PTX that the module was compiled from, and the files in its line table, if they exist."""
        found = []
        if "ptx" in line:
            offset, size = line["ptx"]
            found.append(
                m.ModuleSource("module.ptx", size, self._contents(offset, size, self._writer.put_chunk))
            )
        image = os.pread(self._file, line["size"], line["offset"])
        for path in source_files(image):
            text = text_of(path)
            if text:
                found.append(m.ModuleSource(path, len(text), self._writer.put(text)))
        return found

    def _global(self, i: int, line: Line) -> m.Global:
        before, after, relocations = self._held("global", i, line)
        return m.Global(
            line["module"], line["name"], line["address"], line["size"], line["constant"], before, after, relocations
        )  # fmt: skip

    def _allocation(self, i: int, line: Line) -> m.Allocation:
        before, after, relocations = self._held("allocation", i, line)
        maker, writer = (_call(call) if call else None for call in (line.get("maker"), self._writers.get(i)))
        return m.Allocation(
            line["address"], line["size"], line["type"], line["reached"], maker, writer, before, after, relocations
        )  # fmt: skip

    def _held(
        self, of: str, number: int, line: Line
    ) -> tuple[list[str] | None, list[str] | None, list[m.Relocation]]:
        """Contents before and after, and the relocations of those before."""
        offset = self._offsets.get((of, number, "before"))
        if offset is None:
            return None, None, []
        found: list[tuple[int, list[m.Relocation]]] = []

        def put(chunk: bytes, at: int) -> str:
            lead = -(line["address"] + at) % 8
            words = _words(chunk, lead)
            found.append((at, self._relocations(words, at + lead)))
            return self._writer.put_chunk(self._replaced(chunk, words, at, lead))

        before = self._contents(offset, line["size"], put, places=True)
        after = None
        if self._values == "all" and (later := self._offsets.get((of, number, "after"))) is not None:
            after = self._contents(later, line["size"], self._writer.put_chunk)
        return (
            before,
            after,
            [relocation for _, part in sorted(found, key=lambda entry: entry[0]) for relocation in part],
        )

    def _contents(
        self, offset: int, size: int, put: Callable[..., str], *, places: bool = False
    ) -> list[str]:
        """Write `size` bytes of the data chunk by chunk and return their hashes. `places`: `put` takes each chunk's place too."""

        def one(at: int, length: int) -> str:
            chunk = os.pread(self._file, length, offset + at)
            if len(chunk) < length:
                raise WarpsightError("the capsule is incomplete: contents are missing")
            return put(chunk, at) if places else put(chunk)

        step = self._writer.chunk_bytes
        jobs = ((i * step, length) for i, length in enumerate(chunk_sizes(size, step)))
        return list(_mapped(self._pool, one, jobs))

    def _relocations(self, words: Words, place: int) -> list[m.Relocation]:
        """The words that are addresses of globals; `place`: the offset of the first."""
        found = self._global_extents.find(words)
        return [
            m.Relocation(
                place + 8 * int(i),
                int(self._global_order[found[i]]),
                int(words[i] - self._global_extents.begins[found[i]]),
            )
            for i in np.flatnonzero(found >= 0)
        ]

    def _replaced(self, chunk: bytes, words: Words, at: int, lead: int = 0) -> bytes:
        """The data written instead of a chunk: addresses of the capsule's memory are kept.

        `words`: the aligned ones of the chunk, of which the first is `lead` bytes into it.
        """
        if self._values == "all":
            return chunk
        random = self._values == "random"
        made = np.random.default_rng(at).bytes(len(chunk)) if random else bytes(len(chunk))
        held = bytearray(made)
        for i in np.flatnonzero(self._memory.find(words) >= 0):
            begin = lead + 8 * int(i)
            held[begin : begin + 8] = words[i].tobytes()
        return bytes(held)

    def _graph(self, line: Line) -> m.Graph:
        return m.Graph(
            [m.GraphNode(self._work(n["work"]) if "work" in n else None, n["after"]) for n in line["nodes"]]
        )

    def _work(self, line: Line) -> m.Launch | m.Copy | m.Set:
        made = self._operation(line)
        if not isinstance(made, (m.Launch, m.Copy, m.Set)):
            raise WarpsightError(f"a graph has a node of kind {line['type']}")
        return made

    def _operation(self, line: Line) -> m.Operation:
        fields = {key: value for key, value in line.items() if key not in ("kind", "type")}
        if line["type"] == "launch":
            fields |= self._launch(fields)
        elif line["type"] == "copy" and "host" in fields:
            size = fields["bytes"] * fields["rows"]
            put = self._writer.put_chunk
            if self._values in ("zeros", "random"):
                fields["host"] = self._contents(
                    fields["host"], size, lambda c, at: put(self._replaced(c, _words(c), at)), places=True
                )
            else:
                fields["host"] = self._contents(fields["host"], size, put)
        kind = next(k for k in m.OPERATIONS if k.__struct_config__.tag == line["type"])
        return kind(**fields)

    def _launch(self, line: Line) -> Line:
        packed = bytes.fromhex(line["parameters"])
        words = np.frombuffer(packed[: len(packed) // 8 * 8], np.uint64)
        attributes = [m.LaunchAttribute(a["id"], bytes.fromhex(a["value"])) for a in line["attributes"]]
        cluster = next((a.value for a in attributes if a.id == _CLUSTER), None)
        return {
            "parameters": packed,
            "grid": tuple(line["grid"]),
            "block": tuple(line["block"]),
            "attributes": attributes,
            "cluster": tuple(int(n) for n in np.frombuffer(cluster, np.uint32, 3)) if cluster else None,
            "relocations": self._relocations(words, 0),
        }


#: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_CLUSTER = 4


def _printable(text: str) -> str:
    """The string with control characters escaped: a program given with `python -c` has several lines."""
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", lambda found: repr(found[0])[1:-1], text)[:_LONGEST_TEXT]


def _function(line: Line) -> m.Function:
    parameters = [m.Parameter(offset, size) for offset, size in line["parameters"]]
    attributes = {int(number): value for number, value in line["attributes"].items()}
    return m.Function(line["module"], line["name"], parameters, attributes)


def _call(line: Line) -> m.RecordedCall:
    stack = [_printable(frame) for frame in line.get("stack", [])]
    return m.RecordedCall(line["what"], line["time"], line["sequence"], stack)


def _words(chunk: bytes, lead: int = 0) -> Words:
    """The 8-byte words of a chunk after its first `lead` bytes."""
    count = max(0, len(chunk) - lead) // 8
    return np.frombuffer(chunk, np.uint64, count, lead if count else 0)


def _mapped(
    pool: ThreadPoolExecutor, one: Callable[[int, int], str], jobs: Iterable[tuple[int, int]]
) -> Iterator[str]:
    """`one` of each job, in order, with only a few of them in memory at a time."""
    waiting = iter(jobs)
    while part := list(islice(waiting, _AHEAD)):
        yield from pool.map(lambda job: one(*job), part)
