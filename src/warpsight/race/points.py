"""The points of a program: the instructions at which its warps can be delayed.

They are found in a run with patches that note each instruction when it first executes, so every point found can be patched.
The Sanitizer patches memory accesses, barriers, mbarriers, bulk and asynchronous copies, cluster barriers, matrix products of
warp groups, shuffles and the start and end of blocks. It has no patches for fences, `bar.arrive`, votes or tensor memory: at
these, as at any other instruction, the NVBit tool delays warps.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from warpsight.device_code.demangle import demangle
from warpsight.errors import UsageError
from warpsight.formats.events.kinds import CLASSES, DELAY, EXECUTED, KINDS
from warpsight.race.delays import HOST_LAUNCH
from warpsight.race.plan import Point
from warpsight.recorder.launch import check_uninterrupted
from warpsight.sass.events import tracing
from warpsight.sass.events.trace import EventTrace, TracedInstruction

#: Classes that are searched. Local memory is private to a thread, so delays there have no effect.
PATCHED = ("memory", "barriers", "blocks", "shuffle", "mbarrier", "tma", "cluster", "wgmma", "tcgen05")
_PRIVATE = "local"
#: Kinds that read or write memory themselves: a race is between two of these.
ACCESSES = frozenset(kind.name for name in ("memory", "tma", "wgmma") for kind in CLASSES[name])
#: Ways to select points: kinds, classes of them, and the host's launches.
_KIND_NAMES = (
    *PATCHED,
    *(kind.name for name in PATCHED for kind in CLASSES[name] if kind.name != _PRIVATE),
    EXECUTED.name,
    HOST_LAUNCH,
)


@dataclass(frozen=True)
class DiscoveredPoints:
    """What a run showed.

    Attributes:
        points: in the order of their kernels and offsets; code: the checksums of all code under their names.
        exit_code: exit code of the program; notes: problems.
    """

    points: tuple[Point, ...]
    code: dict[str, tuple[str, ...]]
    exit_code: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Chosen:
    """Which points are selected; an empty condition selects all.

    Attributes:
        kinds: names from :data:`_KIND_NAMES`; opcodes: patterns such as `LDG*`; kernels: patterns of mangled or demangled names.
        sources: `FILE`, `FILE:LINE` or `FILE:LOW-HIGH`, of any line of the source chain; FILE may lack folders in front.
    """

    kinds: tuple[str, ...] = ()
    opcodes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for a kind that does not exist, or a source without lines."""
        unknown = [kind for kind in self.kinds if kind not in _KIND_NAMES]
        if unknown:
            raise UsageError(
                f"there is no kind {', '.join(unknown)}; kinds: {', '.join(dict.fromkeys(_KIND_NAMES))}"
            )
        for source in self.sources:
            _lines_of(source)

    def takes(self, point: Point) -> bool:
        """Whether all conditions hold for a point."""
        kinds = {name for kind in self.kinds for name in _kinds_of(kind)}
        if kinds and point.kind not in kinds:
            return False
        if self.opcodes and not any(fnmatchcase(point.opcode, pattern) for pattern in self.opcodes):
            return False
        names = (point.kernel, demangle(point.kernel))
        if self.kernels and not any(fnmatchcase(name, pattern) for pattern in self.kernels for name in names):
            return False
        return not self.sources or any(
            _lies_in(line, source) for line in point.source for source in self.sources
        )


def discover(
    program: Sequence[str], kernels: Sequence[str] = (), instructions: Sequence[str] | None = None
) -> DiscoveredPoints:
    """Run a program and find its points.

    Args:
        program: the command line; it keeps its terminal.
        kernels: patterns of names; modules without such a kernel run unpatched. None: all.
        instructions: regular expressions on the text of instructions; matching instructions of the kernels that ran become
            points, executed or not; `*` matches all. This needs NVBit. None: the instructions that the Sanitizer patches.

    Raises:
        StartError, WarpsightError: as :func:`~warpsight.sass.events.tracing.trace`.
    """
    if instructions is None:
        selection = tracing.TraceSelection(events=PATCHED, kernels=tuple(kernels), once=True, ring_mib=4)
    else:
        selection = tracing.TraceSelection(
            events=(), kernels=tuple(kernels), sass=tuple(instructions), ring_mib=4
        )
    with tempfile.TemporaryDirectory(prefix="warpsight-points-") as folder:
        traced = tracing.trace(program, selection, Path(folder, "points.events"))
        check_uninterrupted(traced.code)
        traces = [EventTrace(file) for file in traced.files]
        points = sorted(
            {
                point
                for trace in traces
                for point in (*points_of(trace), *matching(trace, instructions or ()))
            },
            key=_order,
        )
        names = {point.kernel for point in points}
        code: dict[str, set[str]] = {name: set() for name in names}
        for trace in traces:
            for name, checksum in _checksums(trace):
                if name in names:
                    code[name].add(checksum)
        notes = dict.fromkeys(note for trace in traces for note in trace.notes)
    return DiscoveredPoints(
        tuple(points), {name: tuple(sorted(code[name])) for name in sorted(code)}, traced.code, tuple(notes)
    )


def points_of(trace: EventTrace) -> set[Point]:
    """The points of an event trace: its instructions, and the launches of its kernels."""
    found = set()
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        pairs = sorted(set(zip(events.pc.tolist(), events.kind.tolist(), strict=True)))
        places = trace.places(launch, np.array([pc for pc, _ in pairs], np.uint32))
        for place, (_, kind) in zip(places, pairs, strict=True):
            name = KINDS[kind].name
            point = _point_of(trace, place, name)
            if point is not None and name not in (_PRIVATE, DELAY.name):
                found.add(point)
        host = _point_of(
            trace, TracedInstruction(int(launch.said["module"]), str(launch.said["name"]), 0), HOST_LAUNCH
        )
        if host is not None:
            found.add(host)
    return found


def matching(trace: EventTrace, patterns: Sequence[str]) -> set[Point]:
    """The points at instructions whose text matches any of the regular expressions."""
    compiled = [re.compile("" if pattern == "*" else pattern) for pattern in patterns]
    found = set()
    for said in trace.file.operands:
        for offset, text, _ in said["instructions"]:
            if any(pattern.search(text) for pattern in compiled):
                place = TracedInstruction(int(said["module"]), str(said["name"]), int(offset))
                point = _point_of(trace, place, EXECUTED.name)
                found |= {point} if point is not None else set()
    return found


def _point_of(trace: EventTrace, place: TracedInstruction, kind: str) -> Point | None:
    """The point of an instruction; None if its code is not in the trace."""
    found = trace.section(place.module, place.function)
    if found is None:
        return None
    checksum = hashlib.sha256(found[0].instructions(found[1])).hexdigest()
    if kind == HOST_LAUNCH:
        return Point(place.function, checksum, 0, kind)
    words = [word for word in trace.sass(place).split() if not word.startswith("@")]
    source = tuple(f"{frame.file}:{frame.line}" for frame in trace.chain(place))
    return Point(place.function, checksum, place.offset, kind, words[0] if words else "", source)


def _checksums(trace: EventTrace) -> Iterable[tuple[str, str]]:
    """Name and checksum of every function of a trace's modules."""
    for module in trace.file.cubins:
        cubin = trace.cubin(module)
        for section, name in cubin.sections.items() if cubin else ():
            yield name, hashlib.sha256(cubin.instructions(section)).hexdigest() if cubin else ""


def _order(point: Point) -> tuple[str, str, int, str]:
    return point.kernel, point.code, point.pc, point.kind


def _kinds_of(name: str) -> tuple[str, ...]:
    """The kinds of a class, or a kind itself. `shuffle` is both."""
    return tuple(kind.name for kind in CLASSES[name]) if name in CLASSES else (name,)


def _lines_of(source: str) -> tuple[str, int, int]:
    """File, first and last line of `FILE[:LOW[-HIGH]]`."""
    file, colon, numbers = source.rpartition(":")
    if not colon or not numbers.replace("-", "").isdigit():
        return source, 0, 2**31
    low, dash, high = numbers.partition("-")
    if not low or (dash and not high) or (dash and int(high) < int(low)):
        raise UsageError(f"{source}: write FILE, FILE:LINE or FILE:LOW-HIGH")
    return file, int(low), int(high if dash else low)


def _lies_in(line: str, source: str) -> bool:
    file, low, high = _lines_of(source)
    path, _, number = line.rpartition(":")
    return low <= int(number) <= high and (path == file or path.endswith("/" + file.lstrip("/")))
