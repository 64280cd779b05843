"""The script of a replay, the input of `warpsight-replay`, made from a fully checked capsule.

The layout is that of `native/replay/script.h`: a header, then arrays of fixed records.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpsight.replay.capsule import images, layout
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.checks import CapsuleError
from warpsight.replay.capsule.layout import NONE, DataFile
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.schedules.sequence import OperationSequence as Steps

MAGIC, VERSION = b"WSREPLAY", 1
TIME_OPERATIONS, STEPWISE, ORIGINAL_TIMING, GRAPH, GATE, SERVE, CHECK_GAPS, TELL_ISSUED = (
    1 << bit for bit in range(8)
)

FUNCTION = np.dtype(
    [("module", "<u4"), ("name", "<u4"), ("replacement", "<u4"), ("attributes", "<u4"), ("attribute", "<i4", (7, 2))]
)  # fmt: skip
_MODULE = np.dtype([("offset", "<u8"), ("size", "<u8")])
GLOBAL = np.dtype([("module", "<u4"), ("name", "<u4"), ("size", "<u8"), ("before", "<u8"), ("after", "<u8")])
PATCH = np.dtype(
    [("place", "<u4"), ("index", "<u4"), ("offset", "<u8"), ("global", "<u4"), ("unused", "<u4"), ("addend", "<u8")]
)  # fmt: skip
STREAM = np.dtype([("flags", "<u4"), ("priority", "<i4")])
_OPERATION = np.dtype(
    [("kind", "<u4"), ("stream", "<u4"), ("function", "<u4"), ("grid", "<u4", 3), ("block", "<u4", 3),
     ("shared", "<u4"), ("parameters", "<u8"), ("parameter_bytes", "<u4"), ("attributes", "<u4"),
     ("attribute", "<u8"), ("to", "<u8"), ("from", "<u8"), ("width", "<u8"), ("height", "<u8"), ("to_pitch", "<u8"),
     ("from_pitch", "<u8"), ("element", "<u4"), ("after_count", "<u4"), ("after", "<u8"), ("issued_ns", "<u8")]
)  # fmt: skip
_ATTRIBUTE = np.dtype([("id", "<u4"), ("unused", "<u4"), ("value", "V64")])
_LAUNCH, _COPY, _UPLOAD, _FILL, _RECORD, _WAIT, _DOWNLOAD, _GRAPH, _EMPTY = range(9)
_IN_MEMORY, _IN_PARAMETERS, _IN_GLOBAL, _TO, _FROM = range(5)

#: Launch attributes that mean the same in another process: no handles.
_KNOWN_LAUNCH_ATTRIBUTES = frozenset((1, 2, 4, 5, 6, 8, 9, 10, 11, 14, 16))
#: Function attributes that can be set.
_KNOWN_FUNCTION_ATTRIBUTES = frozenset((8, 9, 11, 12, 13, 14, 15))
_STACK_LIMIT, _HEAP_LIMIT = 0, 2
#: The driver queues about a thousand operations; behind a closed gate one more would wait for ever.
_MOST_GATED = 400
_LATEST_NS = 2.0**62


@dataclass(frozen=True)
class Replacement:
    """Another module for a kernel; `name`: the kernel's name in it."""

    image: bytes
    name: str


@dataclass(frozen=True)
class ScriptSettings:
    """How a script runs.

    Attributes:
        runs: runs timed as a whole; timed_runs: runs with each operation timed. flags: flags of this module.
        scale: factor of the host's times.
        poison: the byte that fills memory outside of allocations.
        swaps: other modules for functions, by position: the second version.
    """

    runs: int = 1
    timed_runs: int = 0
    flags: int = 0
    device: int = 0
    poison: int = 0xFF
    scale: float = 1.0
    swaps: Mapping[int, Replacement] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenScript:
    """A written script, and how to read its results.

    Attributes:
        pieces: contents by address; owners: the allocation of each; operations: the manifest's operation of each step,
            -1 for events that were added.
    """

    script: Path
    data: Path
    pieces: npt.NDArray[np.void]
    owners: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int64]


def write(capsule: Capsule, steps: Steps, settings: ScriptSettings, folder: Path) -> WrittenScript:
    """Write the script and the data of a replay to a folder.

    Raises:
        CapsuleError: when a chunk is damaged, or the capsule needs something that a replay does not support.
        WarpsightError: when there is not enough disk space.
    """
    _check_room(capsule, folder)
    with open(folder / "data", "xb") as file:
        data = DataFile(file, capsule, {})
        builder = _Builder(capsule.manifest, data, settings.scale)
        compared = steps.complete and capsule.manifest.values == "all"
        pieces, owners = layout.pieces(capsule, data, compared)
        sections = builder.sections(steps, settings.swaps, compared)
    sections["mappings"] = layout.mappings(capsule.manifest.allocations)
    sections["pieces"] = pieces
    with open(folder / "script", "xb") as out:
        _write_sections(out, capsule.manifest, steps, settings, sections, builder.gateable(steps))
    operations = np.array([-1 if s.operation is None else s.operation for s in steps.steps], np.int64)
    return WrittenScript(folder / "script", folder / "data", pieces, owners, operations)


def _check_room(capsule: Capsule, folder: Path) -> None:
    """Check for disk space: equal chunks of memory are written once, everything else each time it is named."""
    manifest = capsule.manifest
    memory = {chunk for a in manifest.allocations for held in (a.before, a.after) for chunk in held or ()}
    needed = sum(capsule.blobs[chunk] for chunk in memory) + sum(module.size for module in manifest.modules)
    needed += sum(g.size * ((g.before is not None) + (g.after is not None)) for g in manifest.globals)
    nodes = (node.work for graph in manifest.graphs for node in graph.nodes)
    works = [
        work for work in (*manifest.operations, *nodes) if isinstance(work, m.Copy) and work.host is not None
    ]
    needed += sum(work.bytes * work.rows for work in works)
    capsule.check_room(needed, folder.parent, "set TMPDIR to a folder on another disk")


def change(written: WrittenScript, flags: int, runs: int) -> None:
    """Change how a written script runs: with other flags, without timed runs, with only the first version."""
    with open(written.script, "r+b") as file:
        file.seek(len(MAGIC) + 4)
        _, device, *_, first, poison = struct.unpack("<7I", file.read(28))
        file.seek(len(MAGIC) + 4)
        file.write(struct.pack("<7I", flags, device, runs, 0, 1, first, poison))


def _write_sections(
    out: IO[bytes],
    manifest: m.Manifest,
    steps: Steps,
    settings: ScriptSettings,
    sections: Mapping[str, npt.NDArray[Any]],
    gateable: bool,
) -> None:
    order = ("mappings", "pieces", "modules", "functions", "globals", "patches", "streams", "operations", "graphs",
             "edges", "attributes", "bytes")  # fmt: skip
    flags = settings.flags if gateable else settings.flags & ~GATE
    head = struct.pack("<8s8I", MAGIC, VERSION, flags, settings.device, settings.runs, settings.timed_runs,
                       2 if settings.swaps else 1, steps.first, settings.poison)  # fmt: skip
    limits = [manifest.device.limits.get(limit, 0) for limit in (_STACK_LIMIT, _HEAP_LIMIT)]
    at = len(head) + 16 * len(order) + 32
    table = b""
    for name in order:
        at += -at % 64
        table += struct.pack("<QQ", at, len(sections[name]))
        at += sections[name].nbytes
    out.write(head + table + struct.pack("<QQQQ", len(steps.steps), steps.events, *limits))
    for name in order:
        out.write(bytes(-out.tell() % 64))
        out.write(sections[name].tobytes())


class _Builder:
    """Collects what the sections of a script share: names, parameters, attributes, pointers to relocate."""

    def __init__(self, manifest: m.Manifest, data: DataFile, scale: float) -> None:
        self.scale = scale
        self.manifest = manifest
        self.data = data
        self.bytes = bytearray()
        self.attributes: list[tuple[int, int, bytes]] = []
        self.patches: list[tuple[int, int, int, int, int, int]] = []
        self.edges: list[int] = []
        self.rows: npt.NDArray[np.void] = np.zeros(0, _OPERATION)
        self.variables = sorted((g.address, g.size, i) for i, g in enumerate(manifest.globals))
        self.starts = [begin for begin, _, _ in self.variables]

    def sections(
        self, steps: Steps, swaps: Mapping[int, Replacement], compared: bool
    ) -> dict[str, npt.NDArray[Any]]:
        """Every section but the memory's."""
        modules, functions = self._code(swaps)
        held = [
            (g.module, self._name(g.name), g.size, self._contents(g.before), self._contents(g.after if compared else None))
            for g in self.manifest.globals
        ]  # fmt: skip
        for index, one in enumerate(self.manifest.globals):
            self._relocate(one.relocations, _IN_GLOBAL, index, 0)
        for allocation in self.manifest.allocations:
            self._relocate(allocation.relocations, _IN_MEMORY, 0, allocation.address)
        start = min(
            (s.work.host_time for s in steps.steps[steps.first :] if s.operation is not None), default=0
        )
        counts = [len(graph.nodes) for graph in self.manifest.graphs]
        self.rows = np.zeros(len(steps.steps) + sum(counts), _OPERATION)
        for i, step in enumerate(steps.steps):
            self._operation(i, step.work, start)
        graphs, at = [], len(steps.steps)
        for graph in self.manifest.graphs:
            graphs.append((at, len(graph.nodes)))
            for i, node in enumerate(graph.nodes):
                self._node(at + i, node)
            at += len(graph.nodes)
        return {
            "modules": np.array(modules, _MODULE),
            "functions": np.array(functions, FUNCTION),
            "globals": np.array(held, GLOBAL),
            "patches": np.array(self.patches, PATCH),
            "streams": np.array([(0, s.priority) for s in steps.streams], STREAM),
            "operations": self.rows,
            "graphs": np.array(graphs, _MODULE),
            "edges": np.array(self.edges, "<u4"),
            "attributes": np.array(self.attributes, _ATTRIBUTE),
            "bytes": np.frombuffer(bytes(self.bytes), np.uint8),
        }

    def gateable(self, steps: Steps) -> bool:
        """Whether the device may wait until everything is issued: only kernels, fills and copies on the device."""
        kinds = (m.Launch, m.Set, m.EventRecord, m.EventWait, m.GraphLaunch)
        inside = all(
            isinstance(s.work, kinds) or (isinstance(s.work, m.Copy) and None not in (s.work.source, s.work.destination))
            for s in steps.steps
        )  # fmt: skip
        return inside and len(steps.steps) <= _MOST_GATED

    def _code(self, swaps: Mapping[int, Replacement]) -> tuple[list[tuple[int, int]], list[tuple[Any, ...]]]:
        modules = [self._image(i, module) for i, module in enumerate(self.manifest.modules)]
        functions = [self._function(f, f.module, f.name, i) for i, f in enumerate(self.manifest.functions)]
        for index, other in swaps.items():
            modules.append((self.data.append(other.image), len(other.image)))
            function = self.manifest.functions[index]
            functions[index] = (*functions[index][:2], len(functions), *functions[index][3:])
            functions.append(self._function(function, len(modules) - 1, other.name, len(functions)))
        return modules, functions

    def _image(self, number: int, module: m.LoadedModule) -> tuple[int, int]:
        offset = self.data.joined(module.image)
        self.data.file.flush()
        held = np.memmap(self.data.file.name, np.uint8, "r", offset, (module.size,))
        images.check(self.data.capsule.path, number, module, held)
        return offset, module.size

    def _function(self, function: m.Function, module: int, name: str, itself: int) -> tuple[Any, ...]:
        unknown = set(function.attributes) - _KNOWN_FUNCTION_ATTRIBUTES
        if unknown:
            raise CapsuleError(
                f"{self.data.capsule.path}: function {function.name} has the attribute {min(unknown)}, which cannot be set"
            )
        pairs = [*function.attributes.items()]
        return (module, self._name(name), itself, len(pairs), pairs + [(0, 0)] * (7 - len(pairs)))

    def _name(self, name: str) -> int:
        at = len(self.bytes)
        self.bytes += name.encode() + b"\0"
        return at

    def _contents(self, contents: Sequence[str] | None) -> int:
        return NONE if contents is None else self.data.joined(contents)

    def _relocate(self, relocations: Sequence[m.Relocation], place: int, index: int, base: int) -> None:
        self.patches += [(place, index, base + r.offset, r.target, 0, r.addend) for r in relocations]

    def _node(self, index: int, node: m.GraphNode) -> None:
        row = self.rows[index : index + 1]
        if node.work is None:
            row["kind"] = _EMPTY
        else:
            self._operation(index, node.work, 0)
        row["stream"], row["after"], row["after_count"] = 0, len(self.edges), len(node.after)
        self.edges += node.after

    def _operation(self, index: int, work: m.Operation, start: int) -> None:
        row = self.rows[index : index + 1]
        row["stream"] = work.stream
        row["issued_ns"] = round(min(max(0, work.host_time - start) * self.scale, _LATEST_NS))
        if isinstance(work, m.Launch):
            self._launch(row, index, work)
        elif isinstance(work, m.Copy):
            self._copy(row, index, work)
        elif isinstance(work, m.Set):
            row["kind"], row["from"], row["element"] = _FILL, work.value, work.element
            row["width"], row["height"] = work.count, work.rows
            row["to_pitch"] = max(work.pitch, work.count * work.element)
            self._address(row, "to", _TO, index, work.destination)
        elif isinstance(work, m.GraphLaunch):
            row["kind"], row["function"] = _GRAPH, work.graph
        elif isinstance(work, (m.EventRecord, m.EventWait)):
            row["kind"] = _RECORD if isinstance(work, m.EventRecord) else _WAIT
            row["function"] = work.event

    def _launch(self, row: npt.NDArray[np.void], index: int, work: m.Launch) -> None:
        unknown = {a.id for a in work.attributes} - _KNOWN_LAUNCH_ATTRIBUTES
        if unknown:
            raise CapsuleError(
                f"{self.data.capsule.path}: a launch has the attribute {min(unknown)}, which a replay does not support"
            )
        self.bytes += bytes(-len(self.bytes) % 64)
        row["kind"], row["function"], row["shared"] = _LAUNCH, work.function, work.shared_bytes
        row["grid"], row["block"] = work.grid, work.block
        row["parameters"], row["parameter_bytes"] = len(self.bytes), len(work.parameters)
        row["attribute"], row["attributes"] = len(self.attributes), len(work.attributes)
        self.bytes += work.parameters
        self.attributes += [(a.id, 0, a.value) for a in work.attributes]
        self._relocate(work.relocations, _IN_PARAMETERS, index, 0)

    def _copy(self, row: npt.NDArray[np.void], index: int, work: m.Copy) -> None:
        row["width"], row["height"] = work.bytes, work.rows
        row["to_pitch"] = max(work.destination_pitch, work.bytes)
        row["from_pitch"] = max(work.source_pitch, work.bytes)
        row["kind"] = _DOWNLOAD if work.destination is None else _UPLOAD if work.source is None else _COPY
        if work.destination is not None:
            self._address(row, "to", _TO, index, work.destination)
        if work.source is not None:
            self._address(row, "from", _FROM, index, work.source)
        elif work.host is not None:
            row["from"] = self.data.joined(work.host)
        else:
            row["from"] = self.data.zeros(work.bytes * work.rows)
        if work.source is None:
            row["element"] = int(work.pinned)

    def _address(self, row: npt.NDArray[np.void], name: str, place: int, index: int, address: int) -> None:
        row[name] = address
        at = bisect_right(self.starts, address) - 1
        if at >= 0 and address < sum(self.variables[at][:2]):
            begin, _, number = self.variables[at]
            self.patches.append((place, index, 0, number, 0, address - begin))
