"""A small capsule with one of everything."""

from __future__ import annotations

from pathlib import Path

from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule, Writer

BASE = 0x7F00_0000_0000
DEVICE = m.RecordedDevice("NVIDIA H100", (9, 0), 132, 80 << 30, 13000)


def write(path: Path, *, chunk_bytes: int = 4096) -> Capsule:
    """Two allocations of which one changes, a global that the other points to, a launch, a copy, a fill, a graph."""
    writer = Writer(path, chunk_bytes=chunk_bytes)
    inputs, old, new = bytes(range(256)) * 40, bytes(8192), b"\1" * 8192
    device_global = m.Global(
        0, "scale", BASE + (1 << 30), 16, before=writer.put(b"s" * 16), after=writer.put(b"s" * 16)
    )
    launch = m.Launch(0, 0, (2, 1, 1), (128, 1, 1), bytes(20), relocations=[m.Relocation(8, 0, 4)])
    manifest = m.Manifest(
        format="warpsight capsule",
        version=1,
        device=DEVICE,
        chunk_bytes=chunk_bytes,
        modules=[
            m.LoadedModule(
                "cubin", 5000, writer.put(b"\x7fELF!" * 1000), [m.ModuleSource("add.cu", 9, writer.put(b"// add.cu"))]
            )
        ],
        globals=[device_global],
        functions=[m.Function(0, "_Z3addPfS_i", [m.Parameter(0, 8), m.Parameter(8, 8), m.Parameter(16, 4)])],
        allocations=[
            m.Allocation(BASE, len(inputs), "malloc", before=writer.put(inputs), after=writer.put(inputs)),
            m.Allocation(
                BASE + (1 << 21), 8192, "pool", "parameter at 0", m.RecordedCall("cuMemAllocAsync", 1, 7, ["a.py:3 f"]),
                m.RecordedCall("kernel fill", 2, 9), writer.put(old), writer.put(new), [m.Relocation(16, 0)],
            ),
        ],
        streams=[m.Stream(default=True), m.Stream(priority=-1, flags=1)],
        events=1,
        graphs=[m.Graph([m.GraphNode(launch), m.GraphNode(m.Set(0, BASE, 7, 4, 16), [0]), m.GraphNode(None, [0, 1])])],
        operations=[
            m.Copy(0, 100, destination=BASE, host=writer.put(bytes(300)), rows=3, destination_pitch=128),
            launch,
            m.EventRecord(0, 0),
            m.EventWait(1, 0),
            m.GraphLaunch(1, 0),
            m.Copy(1, 64, source=BASE + 64),
            m.Synchronize(stream=1),
        ],
    )  # fmt: skip
    return writer.finish(manifest)
