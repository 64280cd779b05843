"""The result of a replay: whether its outputs match the recording, where they first differ, and its times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.demangle import demangle, short
from warpsight.replay import elements
from warpsight.replay.capsule import manifest as m
from warpsight.replay.results import Differing, ReplayResults
from warpsight.replay.schedules.validation import OrderCheck
from warpsight.replay.script import WrittenScript

EXACT, DIFFERENT, VARYING, FAILED, REPEATABLE = (
    "bit-exact",
    "different",
    "non-deterministic",
    "failed",
    "repeatable",
)
LEFT = "left the capsule"
DRY, DISORDERED = "not executed", "out of order"
#: Exit codes of the command line by verdict.
EXIT_CODES = {EXACT: 0, REPEATABLE: 0, DRY: 0, DIFFERENT: 4, VARYING: 5, FAILED: 6, LEFT: 7, DISORDERED: 8}


@dataclass(frozen=True)
class MemoryDifference:
    """The first difference in an allocation, and its extent.

    Attributes:
        allocation: position in the manifest; address: address of the first element that differs; dtype: type of the elements.
        element: index of that element; wanted, found: the two values; differing, elements: number of differing elements, and of
            all.
        largest: largest difference in ulps (floats) or units; not_numbers: elements of which only one side is a number.
        operation, kernel: what wrote it, if known.
    """

    allocation: int
    address: int
    dtype: str
    element: int
    wanted: float
    found: float
    differing: int
    elements: int
    largest: int | None
    not_numbers: int
    operation: int | None = None
    kernel: str | None = None


@dataclass(frozen=True)
class Timed:
    """An operation's device times over the runs; `recorded_ns`: the recording's, or None."""

    operation: int
    name: str
    stream: int
    median_ns: float
    least_ns: float
    recorded_ns: float | None


@dataclass(frozen=True)
class Version:
    """One version of the program: as recorded, or with a kernel replaced.

    Attributes:
        name: `recorded`, or what replaces it.
        verdict: one of :data:`EXIT_CODES`. runs: number of runs. totals_ns: time of each run timed as a whole.
        recorded: differences from the recording; runs_differ: differences between runs; original: differences from the first
            version.
        globals: names of module variables that differ from the recording.
    """

    name: str
    verdict: str
    runs: int
    totals_ns: tuple[float, ...]
    operations: tuple[Timed, ...]
    recorded: tuple[MemoryDifference, ...] = ()
    runs_differ: tuple[MemoryDifference, ...] = ()
    original: tuple[MemoryDifference, ...] = ()
    globals: tuple[str, ...] = ()

    @property
    def median_ns(self) -> float | None:
        """The median of the totals."""
        return median(self.totals_ns) if self.totals_ns else None


@dataclass(frozen=True)
class Changed:
    """A replay under another schedule.

    Attributes:
        what: the change (:mod:`.schedule`). verdict: the verdict on its outputs, as for the recorded schedule.
        median_ns, least_ns: measured times; None if the GPU reported a failure.
        predicted_ns: the prediction of `simulate`; None for changes it does not support.
    """

    what: str
    verdict: str
    median_ns: float | None
    least_ns: float | None
    predicted_ns: float | None


@dataclass(frozen=True)
class Write:
    """An operation changed bytes of an allocation from `begin` up to `end`."""

    operation: int
    name: str
    allocation: int
    begin: int
    end: int


@dataclass(frozen=True)
class ReplayOutcome:
    """The outcome of a replay.

    Attributes:
        device: name of the GPU; empty if nothing was executed. failure: what went wrong, in words.
        changes: outcomes under other schedules. writes: which operation changed which memory.
        validation: the check of order and dependencies. All three are present only if requested.
    """

    device: str
    versions: tuple[Version, ...]
    failure: str | None = None
    notes: tuple[str, ...] = ()
    changes: tuple[Changed, ...] = ()
    writes: tuple[Write, ...] = ()
    validation: OrderCheck | None = None
    executed: bool = True

    @property
    def verdict(self) -> str:
        """The verdict of the last version: the swapped one, if any."""
        if self.failure or (self.executed and not self.versions):
            return FAILED
        if self.validation is not None and self.validation.violations:
            return DISORDERED
        return self.versions[-1].verdict if self.executed else DRY

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"verdict": self.verdict, **asdict(self)}


@dataclass(frozen=True)
class Files:
    """The contents that a replay compared: those of the recording, and those found by its runs."""

    manifest: m.Manifest
    written: WrittenScript
    folder: Path

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """Offset of each piece in the files of found contents."""
        sizes = self.written.pieces["size"].astype(np.int64)
        ends: npt.NDArray[np.int64] = np.cumsum(sizes) - sizes
        return ends

    def recorded(self, piece: int) -> npt.NDArray[np.uint8]:
        """Contents of a piece after the recording."""
        row = self.written.pieces[piece]
        return np.fromfile(self.written.data, np.uint8, int(row["size"]), offset=int(row["after"]))

    def found(self, name: str, piece: int) -> npt.NDArray[np.uint8]:
        """Contents of a piece after a run, from the file `first.V` or `other.V`."""
        size = int(self.written.pieces[piece]["size"])
        return np.fromfile(self.folder / name, np.uint8, size, offset=int(self.places[piece]))


def differences(
    files: Files, rows: Sequence[Differing], wanted: str, found: str, dtype: str | None
) -> tuple[MemoryDifference, ...]:
    """The first difference of each allocation with one; `wanted`: "" for the recording, else the name of a file."""
    by_allocation: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: row.piece):
        by_allocation.setdefault(int(files.written.owners[row.piece]), []).append(row.piece)
    return tuple(
        _difference(files, index, pieces, wanted, found, dtype) for index, pieces in by_allocation.items()
    )


def _difference(
    files: Files, index: int, pieces: Sequence[int], wanted: str, found: str, dtype: str | None
) -> MemoryDifference:
    address = files.manifest.allocations[index].address
    total: elements.Distance | None = None
    start = 0
    for piece in pieces:
        left = files.found(wanted, piece) if wanted else files.recorded(piece)
        dtype = dtype or elements.guess(left)
        size = np.dtype(elements.TYPES[dtype]).itemsize
        one = elements.distance(left, files.found(found, piece), dtype)
        if total is None:
            total = one
            start = (int(files.written.pieces[piece]["address"]) - address) // size
        else:
            far = [value for value in (total.largest, one.largest) if value is not None]
            total = elements.Distance(
                total.first, total.differing + one.differing, total.elements, total.wanted, total.found,
                max(far, default=None), total.not_numbers + one.not_numbers,
            )  # fmt: skip
    assert total is not None and dtype is not None
    size = np.dtype(elements.TYPES[dtype]).itemsize
    element = start + total.first
    return MemoryDifference(
        index, address + element * size, dtype, element, total.wanted, total.found, total.differing,
        files.manifest.allocations[index].size // size, total.largest, total.not_numbers,
    )  # fmt: skip


def version(
    files: Files, found: ReplayResults, number: int, name: str, dtype: str | None, compared: bool
) -> Version:
    """The results of one version's runs. `compared` says whether the recording has contents to compare with."""
    runs = {run for run, version in found.totals if version == number}
    runs |= {run for run, version, _ in found.times if version == number}
    first_rows = [row for row in found.recorded if row.run == 0 and row.version == number]
    between = [row for row in found.between if row.version == number]
    other = min((row.run for row in between), default=None)
    original = [row for row in found.versions if number == 1]
    recorded = differences(files, first_rows, "", f"first.{number}", dtype)
    varying = differences(
        files, [row for row in between if row.run == other], f"first.{number}", f"other.{number}", dtype
    )
    globals_ = sorted({files.manifest.globals[g].name for _, v, g, _ in found.globals if v == number})
    same = not recorded and not globals_ and (compared or not original)
    verdict = VARYING if varying else DIFFERENT if not same else EXACT if compared else REPEATABLE
    return Version(
        name, verdict, len(runs), tuple(ns for (_, v), ns in sorted(found.totals.items()) if v == number),
        tuple(_timed(files, found, number)), recorded, varying,
        differences(files, original, "first.0", "first.1", dtype), tuple(globals_),
    )  # fmt: skip


def _timed(files: Files, found: ReplayResults, number: int) -> Iterable[Timed]:
    by_step: dict[int, list[float]] = {}
    for (_, version_, step), (start, end) in found.times.items():
        if version_ == number and files.written.operations[step] >= 0:
            by_step.setdefault(step, []).append(end - start)
    for step, times in sorted(by_step.items()):
        operation = int(files.written.operations[step])
        work = files.manifest.operations[operation]
        recorded = float(getattr(work, "device_time", 0)) or None
        if not isinstance(work, (m.EventRecord, m.EventWait)):
            yield Timed(
                operation, title(files.manifest, work), work.stream or 0, median(times), min(times), recorded
            )


def title(manifest: m.Manifest, work: m.Operation) -> str:
    """The title of an operation: a kernel's readable name without parameters, or a description."""
    if isinstance(work, m.Launch):
        return short(demangle(manifest.functions[work.function].name))
    if isinstance(work, m.Copy):
        kind = "HtoD" if work.source is None else "DtoH" if work.destination is None else "DtoD"
        return f"copy {kind}, {work.bytes * work.rows} bytes"
    if isinstance(work, m.Set):
        return f"set {work.count * work.element * work.rows} bytes"
    if isinstance(work, m.GraphLaunch):
        return f"graph of {len(manifest.graphs[work.graph].nodes)} nodes"
    if isinstance(work, m.Synchronize):
        return "synchronize"
    return f"{'record' if isinstance(work, m.EventRecord) else 'wait for'} event {work.event}"
