"""Checks of a capsule's manifest: references, bounds, overlaps. Nothing in a capsule is used before these pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from warpsight.errors import WarpsightError
from warpsight.replay.capsule import manifest as m

#: Threads of a block, blocks of a cluster, bytes of all contents: more than any GPU takes.
_BLOCK_LIMIT, _CLUSTER_LIMIT, _TOTAL_LIMIT = 1024, 16, 2**44
#: Operations times streams, where each may have to wait for all.
_MOST_WAITS = 1 << 26
#: The mapping granularity of GPU memory and of pinned host memory.
GRANULE, PAGE = 2 << 20, 4096


class CapsuleError(WarpsightError):
    """A capsule is damaged, hostile or of a newer version; no part of it was used."""


def check(manifest: m.Manifest) -> None:
    """Check everything that the types do not guarantee.

    Raises:
        CapsuleError: for an invalid manifest; the message gives the first problem.
    """
    problem = next(_problems(manifest), None)
    if problem:
        raise CapsuleError(problem)


def blobs(manifest: m.Manifest) -> dict[str, int]:
    """Every chunk of the capsule by hash, with its size in bytes.

    Raises:
        CapsuleError: when contents have the wrong length, or one hash has two sizes.
    """
    found: dict[str, int] = {}
    for what, size, contents in _all_contents(manifest):
        count = -(-size // manifest.chunk_bytes)
        if count != len(contents):  # before allocating anything as large as the size says
            raise CapsuleError(f"{what} of {size} bytes has {len(contents)} chunks instead of {count}")
        for chunk, bytes_ in zip(contents, chunk_sizes(size, manifest.chunk_bytes), strict=True):
            if found.setdefault(chunk, bytes_) != bytes_:
                raise CapsuleError(
                    f"{what} refers to chunk {chunk} as {bytes_} bytes, others as {found[chunk]}"
                )
    return found


def chunk_sizes(size: int, chunk_bytes: int) -> Sequence[int]:
    """Bytes of each chunk of contents of `size` bytes."""
    whole, rest = divmod(size, chunk_bytes)
    return [chunk_bytes] * whole + ([rest] if rest else [])


def _all_contents(manifest: m.Manifest) -> Iterator[tuple[str, int, Sequence[str]]]:
    for i, module in enumerate(manifest.modules):
        yield f"module {i}", module.size, module.image
        yield from ((f"source {s.name} of module {i}", s.size, s.contents) for s in module.sources)
    memory: list[tuple[str, m.Global | m.Allocation]] = [
        *((f"global {i}", part) for i, part in enumerate(manifest.globals)),
        *((f"allocation {i}", part) for i, part in enumerate(manifest.allocations)),
    ]
    for what, part in memory:
        for contents in (part.before, part.after):
            if contents is not None:
                yield what, part.size, contents
    for what, work in _works(manifest):
        if isinstance(work, m.Copy) and work.host is not None:
            yield what, work.bytes * work.rows, work.host


def _works(manifest: m.Manifest) -> Iterator[tuple[str, m.Operation]]:
    """Operations and the work of graph nodes, with their names in messages."""
    for i, operation in enumerate(manifest.operations):
        yield f"operation {i}", operation
    for g, graph in enumerate(manifest.graphs):
        for n, node in enumerate(graph.nodes):
            if node.work is not None:
                yield f"node {n} of graph {g}", node.work


class _Memory:
    """Where addresses are: allocations and globals, which do not overlap."""

    def __init__(self, manifest: m.Manifest) -> None:
        extents = [(a.address, a.size, f"allocation {i}") for i, a in enumerate(manifest.allocations)]
        extents += [(g.address, g.size, f"global {g.name}") for g in manifest.globals]
        self._extents = sorted(extents)
        self._starts = [extent[0] for extent in self._extents]

    def problems(self) -> Iterator[str]:
        total = 0
        previous = (0, 0, "")
        for address, size, what in self._extents:
            if address + size > m.ADDRESS_END:
                yield f"{what} ends beyond the address space"
            if previous[0] + previous[1] > address:
                yield f"{what} overlaps {previous[2]}"
            previous = (address, size, what)
            total += size
        if total > _TOTAL_LIMIT:
            yield f"it holds {total} bytes of memory, more than a GPU has"

    def holds(self, address: int, size: int) -> bool:
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and address + size <= self._extents[at][0] + self._extents[at][1]


def _problems(manifest: m.Manifest) -> Iterator[str]:
    memory = _Memory(manifest)
    yield from memory.problems()
    addresses = [a.address for a in manifest.allocations]
    if addresses != sorted(addresses):
        yield "its allocations are not in the order of their addresses"
    yield from _shared(manifest.allocations)
    yield from _waits(manifest)
    for i, held in enumerate(manifest.globals):
        if held.module >= len(manifest.modules):
            yield f"global {i} belongs to module {held.module}, which does not exist"
        yield from _of_relocations(f"global {i}", held.relocations, held.size, manifest)
    for i, allocation in enumerate(manifest.allocations):
        yield from _of_relocations(f"allocation {i}", allocation.relocations, allocation.size, manifest)
    for i, function in enumerate(manifest.functions):
        yield from _of_function(i, function, manifest)
    for g, graph in enumerate(manifest.graphs):
        for n, node in enumerate(graph.nodes):
            if any(earlier >= n for earlier in node.after):
                yield f"node {n} of graph {g} comes after one that does not come before it"
    for what, work in _works(manifest):
        yield from (f"{what} {problem}" for problem in _of_operation(work, manifest, memory))


def extent(allocation: m.Allocation) -> tuple[int, int]:
    """The bounds of the memory that an allocation is mapped in."""
    unit = PAGE if allocation.kind == "host" else GRANULE
    return allocation.address // unit * unit, -(-(allocation.address + allocation.size) // unit) * unit


def _shared(allocations: Sequence[m.Allocation]) -> Iterator[str]:
    for before, after in pairwise(sorted(allocations, key=lambda one: one.address)):
        if (before.kind == "host") != (after.kind == "host") and extent(after)[0] < extent(before)[1]:
            yield f"host and device memory share addresses at {after.address:#x}"


def _waits(manifest: m.Manifest) -> Iterator[str]:
    """Each operation and each host wait that may have to follow the work of every stream."""
    streams = len({work.stream for work in manifest.operations if work.stream is not None})
    default = any(stream.default for stream in manifest.streams)
    hosts = sum(isinstance(work, m.Synchronize) for work in manifest.operations)
    if streams > 1 and streams * (len(manifest.operations) if default else hosts) > _MOST_WAITS:
        yield f"its {streams} streams wait for each other more often than a replay can take"


def _of_relocations(
    what: str, relocations: Sequence[m.Relocation], size: int, manifest: m.Manifest
) -> Iterator[str]:
    end = 0
    for relocation in relocations:
        if relocation.offset < end or relocation.offset + 8 > size:
            yield f"{what} has a relocation at {relocation.offset} of {size} bytes, or two of them overlap"
        if relocation.target >= len(manifest.globals):
            yield f"{what} refers to global {relocation.target}, which does not exist"
        elif relocation.addend > manifest.globals[relocation.target].size:
            yield f"{what} points beyond global {relocation.target}"
        end = relocation.offset + 8


def _of_function(i: int, function: m.Function, manifest: m.Manifest) -> Iterator[str]:
    if function.module >= len(manifest.modules):
        yield f"function {i} belongs to module {function.module}, which does not exist"
    end = 0
    for parameter in function.parameters:
        if parameter.offset < end or parameter.offset + parameter.size > m.PARAMETER_LIMIT:
            yield f"parameters of function {i} overlap or are too large"
        end = parameter.offset + parameter.size


def parameter_bytes(function: m.Function) -> int:
    """Bytes of a function's packed parameters."""
    return max((p.offset + p.size for p in function.parameters), default=0)


def _of_operation(work: m.Operation, manifest: m.Manifest, memory: _Memory) -> Iterator[str]:
    if work.stream is not None and work.stream >= len(manifest.streams):
        yield f"runs on stream {work.stream}, which does not exist"
    if isinstance(work, (m.EventRecord, m.EventWait, m.Synchronize)):
        if work.event is not None and work.event >= manifest.events:
            yield f"uses event {work.event}, which does not exist"
    elif isinstance(work, m.GraphLaunch):
        if work.graph >= len(manifest.graphs):
            yield f"launches graph {work.graph}, which does not exist"
    elif isinstance(work, m.Launch):
        yield from _of_launch(work, manifest)
    elif isinstance(work, m.Copy):
        yield from _of_copy(work, memory)
    elif not memory.holds(work.destination, _span(work.count * work.element, work.rows, work.pitch)):
        yield f"fills {work.destination:#x}, which is not entirely in the capsule's memory"


def _of_launch(launch: m.Launch, manifest: m.Manifest) -> Iterator[str]:
    if launch.function >= len(manifest.functions):
        yield f"launches function {launch.function}, which does not exist"
        return
    size = parameter_bytes(manifest.functions[launch.function])
    if len(launch.parameters) != size:
        yield f"has {len(launch.parameters)} bytes of parameters where its function takes {size}"
    if launch.grid[1] > 65_535 or launch.grid[2] > 65_535:
        yield f"has the grid {launch.grid}, larger than any GPU takes"
    for what, extent, limit in (
        ("block", launch.block, _BLOCK_LIMIT),
        ("cluster", launch.cluster, _CLUSTER_LIMIT),
    ):
        if extent is not None and extent[0] * extent[1] * extent[2] > limit:
            yield f"has the {what} {extent}, larger than any GPU takes"
    if len({a.id for a in launch.attributes}) != len(launch.attributes):
        yield "has a launch attribute twice"
    yield from _of_relocations("launch", launch.relocations, size, manifest)


def _of_copy(copy: m.Copy, memory: _Memory) -> Iterator[str]:
    if copy.destination is None and copy.source is None:
        yield "copies from the host to the host"
    if copy.host is not None and copy.source is not None:
        yield "copies from the host and from the device"
    for address, pitch in ((copy.destination, copy.destination_pitch), (copy.source, copy.source_pitch)):
        if address is not None and not memory.holds(address, _span(copy.bytes, copy.rows, pitch)):
            yield f"copies at {address:#x}, which is not entirely in the capsule's memory"


def _span(row: int, rows: int, pitch: int) -> int:
    return row if rows == 1 else max(pitch, row) * (rows - 1) + row
