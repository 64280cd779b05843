"""The last value that a manifest may hold, and the first one that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.replay import capsules
from warpsight.replay.capsule import checks
from warpsight.replay.capsule import manifest as m

HASH = "0" * 64
BASE = 1 << 20
END = m.ADDRESS_END


def manifest(**parts: Any) -> m.Manifest:
    """Memory of 1,024 bytes at BASE, a variable of 64 bytes right behind it, a function of two parameters, a stream."""
    filled: dict[str, Any] = {
        "modules": [m.LoadedModule("cubin", 64, [HASH])],
        "allocations": [m.Allocation(BASE, 1024, "malloc")],
        "globals": [m.Global(0, "table", BASE + 1024, 64)],
        "functions": [m.Function(0, "f", [m.Parameter(0, 8), m.Parameter(8, 4)])],
        "streams": [m.Stream()],
        "events": 1,
        **parts,
    }
    return m.Manifest("warpsight capsule", 1, capsules.DEVICE, 4096, **filled)


def refused(**parts: Any) -> bool:
    try:
        checks.check(manifest(**parts))
    except checks.CapsuleError:
        return True
    return False


def launch(**more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"grid": (1, 1, 1), "block": (1, 1, 1), "parameters": bytes(12), **more}
    return {"operations": [m.Launch(0, 0, **fields)]}


def copy(**more: Any) -> dict[str, Any]:
    return {"operations": [m.Copy(0, **more)]}


def fill(**more: Any) -> dict[str, Any]:
    return {"operations": [m.Set(0, **{"value": 0, "element": 4, "count": 256, **more})]}


def memory(*allocations: tuple[int, int]) -> dict[str, Any]:
    return {"globals": [], "allocations": [m.Allocation(at, size, "malloc") for at, size in allocations]}


def related(*offsets: int, addend: int = 0, target: int = 0) -> dict[str, Any]:
    words = [m.Relocation(offset, target, addend) for offset in offsets]
    return {"allocations": [m.Allocation(BASE, 1024, "malloc", relocations=words)]}


def parameters(*places: tuple[int, int]) -> dict[str, Any]:
    return {"functions": [m.Function(0, "f", [m.Parameter(at, size) for at, size in places])]}


def nodes(*after: list[int]) -> dict[str, Any]:
    return {"graphs": [m.Graph([m.GraphNode(after=one) for one in after])]}


def shared(gap: int) -> dict[str, Any]:
    return {
        "globals": [],
        "allocations": [m.Allocation(1 << 30, 16, "pool"), m.Allocation((1 << 30) + gap, 16, "host")],
    }


def waiting(operations: int) -> dict[str, Any]:
    """On 64 streams, of which the first is the default one."""
    works = [m.EventRecord(i % 64, 0) for i in range(64)]
    return {
        "streams": [m.Stream(default=i == 0) for i in range(64)],
        "operations": works * (operations // 64) + works[: operations % 64],
    }


#: What may be, and the nearest that may not.
BOUNDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "memory side by side": (memory((BASE, 16), (BASE + 16, 16)), memory((BASE, 17), (BASE + 16, 16))),
    "end of the address space": (memory((END - 16, 16)), memory((END - 16, 17))),
    "all memory": (
        memory((2**45, 2**43), (2**46, 2**43)), memory((2**45, 2**43), (2**46, 2**43), (2**47, 1)),
    ),
    "order of addresses": (memory((BASE, 16), (BASE + 64, 16)), memory((BASE + 64, 16), (BASE, 16))),
    "host memory behind the GPU's": (shared(1 << 21), shared((1 << 21) - 1)),
    "streams that wait for each other": (waiting(1 << 20), waiting((1 << 20) + 1)),
    "relocation at the start and end": (related(0, 1016), related(0, 1017)),
    "relocations side by side": (related(8, 16), related(8, 15)),
    "end of the target": (related(0, addend=64), related(0, addend=65)),
    "last target": (related(0, target=0), related(0, target=1)),
    "module of a function": ({}, {"functions": [m.Function(1, "f")]}),
    "module of a variable": ({}, {"globals": [m.Global(1, "table", BASE + 1024, 64)]}),
    "parameters side by side": (parameters((0, 8), (8, 8)), parameters((0, 8), (7, 8))),
    "all parameters": (
        parameters((0, m.PARAMETER_LIMIT)), parameters((1, m.PARAMETER_LIMIT)),
    ),
    "parameter bytes": (launch(), launch(parameters=bytes(13))),
    "grid, second axis": (launch(grid=(2**31 - 1, 65_535, 1)), launch(grid=(1, 65_536, 1))),
    "grid, third axis": (launch(grid=(1, 1, 65_535)), launch(grid=(1, 1, 65_536))),
    "block": (launch(block=(32, 16, 2)), launch(block=(41, 25, 1))),
    "cluster": (launch(cluster=(4, 2, 2)), launch(cluster=(17, 1, 1))),
    "relocated parameter": (launch(relocations=[m.Relocation(4, 0)]), launch(relocations=[m.Relocation(5, 0)])),
    "stream": (launch(), {"operations": [m.EventRecord(1, 0)]}),
    "event": ({"operations": [m.EventWait(0, 0)]}, {"operations": [m.EventWait(0, 1)]}),
    "event that the host waits for": (
        {"operations": [m.Synchronize(event=0)]}, {"operations": [m.Synchronize(event=1)]},
    ),
    "stream that the host waits for": (
        {"operations": [m.Synchronize(stream=0)]}, {"operations": [m.Synchronize(stream=1)]},
    ),
    "graph": (
        {"graphs": [m.Graph([])], "operations": [m.GraphLaunch(0, 0)]},
        {"graphs": [m.Graph([])], "operations": [m.GraphLaunch(0, 1)]},
    ),
    "order of nodes": (nodes([], [0], [0, 1]), nodes([], [0], [2])),
    "copy to all memory": (copy(bytes=1024, destination=BASE), copy(bytes=1025, destination=BASE)),
    "copy to the first byte": (copy(bytes=1, destination=BASE), copy(bytes=1, destination=BASE - 1)),
    "copy from the last byte": (copy(bytes=1, source=BASE + 1023), copy(bytes=1, source=BASE + 1088)),
    "copy of rows": (
        copy(bytes=4, rows=3, source=BASE, source_pitch=510), copy(bytes=5, rows=3, source=BASE, source_pitch=510),
    ),
    "copy of rows without a pitch": (
        copy(bytes=256, rows=4, destination=BASE), copy(bytes=256, rows=5, destination=BASE),
    ),
    "pitch of one row": (
        copy(bytes=4, source=BASE, source_pitch=2**40), copy(bytes=4, rows=2, source=BASE, source_pitch=2**40),
    ),
    "copy within memory": (
        copy(bytes=512, source=BASE, destination=BASE + 512), copy(bytes=513, source=BASE, destination=BASE + 512),
    ),
    "one source": (
        copy(bytes=4, destination=BASE, host=[HASH]), copy(bytes=4, destination=BASE, source=BASE + 8, host=[HASH]),
    ),
    "one side on the device": (copy(bytes=4, source=BASE), copy(bytes=4)),
    "fill of all memory": (fill(destination=BASE), fill(destination=BASE, count=257)),
    "fill of rows": (
        fill(destination=BASE, count=1, rows=3, pitch=510), fill(destination=BASE, count=1, rows=3, pitch=511),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_manifest_is_refused_from_the_first_wrong_value_on(bound: str) -> None:
    good, bad = BOUNDS[bound]
    assert not refused(**good)
    assert refused(**bad)


@pytest.mark.parametrize(
    ("size", "chunks"), [(4096, [4096]), (4097, [4096, 1]), (8192, [4096, 4096]), (1, [1]), (0, [])]
)
def test_contents_are_whole_chunks_and_a_rest(size: int, chunks: list[int]) -> None:
    assert list(checks.chunk_sizes(size, 4096)) == chunks


def test_chunks_have_one_size_each() -> None:
    one, other = "1" * 64, "2" * 64
    held = m.Allocation(BASE, 4100, "malloc", before=[one, other])
    small = m.Copy(0, 2, rows=2, destination=BASE, host=[other])
    assert checks.blobs(manifest(modules=[], functions=[], globals=[], allocations=[held], operations=[small])) == {
        one: 4096, other: 4,
    }  # fmt: skip
    larger = m.Copy(0, 3, rows=2, destination=BASE, host=[other])
    with pytest.raises(checks.CapsuleError, match="as 6 bytes, others as 4"):
        checks.blobs(manifest(modules=[], functions=[], globals=[], allocations=[held], operations=[larger]))


def test_packed_parameters_end_with_the_last() -> None:
    assert checks.parameter_bytes(m.Function(0, "f", [m.Parameter(0, 8), m.Parameter(16, 4)])) == 20
    assert checks.parameter_bytes(m.Function(0, "f")) == 0
