"""A capsule's contents for readers: each operation, allocation and variable with everything known about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.device_code.demangle import demangle, demangle_all, short
from warpsight.errors import WarpsightError
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule


@dataclass(frozen=True)
class ListedOperation:
    """One operation; `what` is a kernel's demangled name or a description. Times in ns, 0 if unknown."""

    index: int
    kind: str
    what: str
    stream: int | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    shared_bytes: int
    host_time: int
    device_time: int


@dataclass(frozen=True)
class Memory:
    """One allocation or variable.

    Attributes:
        id: `a3`, or `g0` for a variable of a module.
        name: name of a variable. kind: malloc, pool, vmm, host, global or constant.
        reached: why it is in the capsule. maker, last_writer: the calls before the range that made and last wrote it, if known.
        stack: host stack of the maker.
        changed_bytes: how many bytes the range changed; None if contents before or after are missing.
    """

    id: str
    name: str
    kind: str
    address: int
    size: int
    reached: str
    maker: str
    last_writer: str
    stack: list[str]
    changed_bytes: int | None


@dataclass(frozen=True)
class Overview:
    """A whole capsule; `memory_bytes` is its size in GPU memory, `disk_bytes` on disk."""

    path: str
    device: str
    driver: int
    command: list[str]
    values: str
    time: int
    memory_bytes: int
    disk_bytes: int
    modules: int
    graphs: int
    sources: list[str]
    incomplete: list[str]
    operations: list[ListedOperation]
    memory: list[Memory]


def overview(capsule: Capsule) -> Overview:
    """The contents of `capsule show`."""
    held = capsule.manifest
    memory = [_of_allocation(capsule, i, a) for i, a in enumerate(held.allocations)]
    memory += [_of_global(capsule, i, g) for i, g in enumerate(held.globals)]
    major, minor = held.device.compute_capability
    return Overview(
        path=str(capsule.path), device=f"{held.device.name} (sm_{major}{minor})", driver=held.device.driver,
        command=list(held.command), values=held.values, time=held.time,
        memory_bytes=sum(part.size for part in memory), disk_bytes=capsule.packed_bytes(),
        modules=len(held.modules), graphs=len(held.graphs),
        sources=list(dict.fromkeys(source.name for module in held.modules for source in module.sources)),
        incomplete=list(held.incomplete),
        operations=_operations(held), memory=memory,
    )  # fmt: skip


def one(whole: Overview, word: str) -> Memory:
    """The allocation or variable with an id or name, or containing an address.

    Raises:
        WarpsightError: when it does not exist.
    """
    try:
        address = int(word, 0)
    except ValueError:
        address = -1
    for part in whole.memory:
        if word in (part.id, part.name) or part.address <= address < part.address + part.size:
            return part
    raise WarpsightError(
        f"{whole.path} holds no {word}: give an id as `capsule show` lists it, a variable's name or an address"
    )


def contents(capsule: Capsule, part: Memory, when: str, begin: int, size: int) -> bytes:
    """`size` bytes of an allocation or variable, from the byte `begin` on, before or after the range.

    Raises:
        WarpsightError: when the capsule does not hold them.
    """
    index = int(part.id[1:])
    held = capsule.manifest.allocations[index] if part.id[0] == "a" else capsule.manifest.globals[index]
    names = held.before if when == "before" else held.after
    if names is None:
        raise WarpsightError(f"{capsule.path} holds no contents of {part.id} {when} the range")
    step = capsule.manifest.chunk_bytes
    end = min(begin + size, part.size)
    chunks = b"".join(capsule.chunk(name) for name in names[begin // step : -(-end // step)])
    return chunks[begin % step : begin % step + end - begin]


def _operations(held: m.Manifest) -> list[ListedOperation]:
    names = demangle_all([function.name for function in held.functions])
    return [_operation(i, work, names) for i, work in enumerate(held.operations)]


def _operation(index: int, work: m.Operation, names: list[str]) -> ListedOperation:
    launch = work if isinstance(work, m.Launch) else None
    return ListedOperation(
        index, _KINDS[type(work)], _what(work, names), work.stream, launch.grid if launch else None,
        launch.block if launch else None, launch.shared_bytes if launch else 0, work.host_time,
        getattr(work, "device_time", 0),
    )  # fmt: skip


_KINDS = {
    m.Launch: "launch", m.Copy: "copy", m.Set: "fill", m.GraphLaunch: "graph", m.EventRecord: "event record",
    m.EventWait: "event wait", m.Synchronize: "synchronize",
}  # fmt: skip


def _what(work: m.Operation, names: list[str]) -> str:
    if isinstance(work, m.Launch):
        return names[work.function]
    if isinstance(work, m.GraphLaunch):
        return f"graph {work.graph}"
    if isinstance(work, m.Copy):
        source, target = (f"{a:#x}" if a is not None else "host" for a in (work.source, work.destination))
        return f"{work.bytes * work.rows:,} bytes from {source} to {target}"
    if isinstance(work, m.Set):
        return (
            f"{work.count * work.element * work.rows:,} bytes at {work.destination:#x} with {work.value:#x}"
        )
    return f"event {work.event}" if work.event is not None else ""


def _of_allocation(capsule: Capsule, i: int, held: m.Allocation) -> Memory:
    return Memory(
        f"a{i}", "", held.kind, held.address, held.size, _readable(held.reached), held.maker.what if held.maker else "",
        _readable(held.last_writer.what) if held.last_writer else "", list(held.maker.stack) if held.maker else [],
        _changed(capsule, held),
    )  # fmt: skip


def _readable(text: str) -> str:
    """A string that ends with a mangled name, with the short name in its place."""
    words, space, name = text.rpartition(" ")
    return words + space + short(demangle(name))


def _of_global(capsule: Capsule, i: int, held: m.Global) -> Memory:
    return Memory(
        f"g{i}", held.name, "constant" if held.constant else "global", held.address, held.size, f"module {held.module}",
        "", "", [], _changed(capsule, held),
    )  # fmt: skip


def _changed(capsule: Capsule, held: m.Allocation | m.Global) -> int | None:
    if held.before is None or held.after is None:
        return None
    total = 0
    for before, after in zip(held.before, held.after, strict=True):
        if before != after:
            pair = [np.frombuffer(capsule.chunk(name), np.uint8) for name in (before, after)]
            total += int(np.count_nonzero(pair[0] != pair[1]))
    return total
