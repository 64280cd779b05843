"""Recordings built with SegmentWriter: one process after another, as a drainer would leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.capture.segment_writer import SegmentWriter
from warpsight.capture.converter import Converter
from warpsight.model.trace import StoredTrace

STRINGS = {
    1: "_Z9vectorAddPKfS0_Pfi",
    2: "train.py",
    3: "main",
    4: "step",
    5: "python\0train.py --lr 1",
    6: "/usr/bin/python3",
    7: "node7",
    8: "GPU-aaaa",
    9: "H200",
    10: "NVIDIA",
    11: "CUDA_VISIBLE_DEVICES=0\nOMP_NUM_THREADS=4",
    12: "forward",
    13: "backward",
    14: "loader",
}


class Recording:
    """A folder being recorded. `process` begins one; its writers number their blocks across files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._number = 0
        self._sequences: dict[str, dict[int, int]] = {}

    def file(self, arena: str, prefix: str = "data", suffix: str = "") -> SegmentWriter:
        """A new segment file of an arena."""
        path = self.root / "raw" / arena / f"{prefix}-{self._number:06d}.seg{suffix}"
        self._number += 1
        sequences = self._sequences.setdefault(arena, {})
        return SegmentWriter(path, pid=int(arena, 16), arena=int(arena, 16), sequences=sequences)

    def process(self, number: int, uuid: str = "GPU-aaaa", device: int = 0) -> str:
        """A process with stacks 1 = main, 2 = main > step, a shape, a device of this number; returns the arena."""
        arena = f"{number:016x}"
        with self.file(arena, "definitions") as out:
            out.write_strings({**STRINGS, 8: uuid})
            out.write(
                "Shape",
                {
                    "id": [1],
                    "grid_x": 4,
                    "grid_y": 1,
                    "grid_z": 1,
                    "block_x": 128,
                    "block_y": 1,
                    "block_z": 1,
                },
            )
            out.write("Frame", {"id": [1, 2], "function": [3, 4], "file": 2, "line": [10, 20], "kind": 1})
            out.write("Stack", {"id": [1, 2], "parent": [0, 1], "frame": [1, 2], "method": 1})
            out.write(
                "Process",
                {
                    "pid": [number],
                    "time": 5,
                    "command": 5,
                    "executable": 6,
                    "host": 7,
                    "environment": 11,
                    "rank": number,
                    "local_rank": -1,
                    "world_size": -1,
                },
            )
            out.write(
                "Device",
                {"device": [device], "name": 9, "uuid": 8, "vendor": 10, "platform": 1, "compute_major": 9},
            )
            out.write("Context", {"context": [1], "device": device, "api": 1})
        return arena

    def finish(self, **request: Any) -> StoredTrace:
        """Convert everything and open the trace."""
        converter = Converter(self.root)
        converter.convert(enough_bytes=0)
        converter.finish(**request)
        return StoredTrace(self.root, path=str(self.root))


def launches(first: int, count: int, **other: Any) -> dict[str, Any]:
    """Columns of `count` launches with correlation ids from `first`, each 100 ns long, 1 µs apart."""
    ids = range(first, first + count)
    return {
        "start": [1000 * (i & 0xFFFFF) for i in ids],
        "duration": 100,
        "correlation": [i & 0xFFFFFFFF for i in ids],
        "stack": 2,
        "name": 1,
        "shape": 1,
        "function": 211,
        "domain": 1,
        "flags": 1,
        **other,
    }


def kernels(first: int, count: int, **other: Any) -> dict[str, Any]:
    """Columns of the kernels of those launches, each 500 ns long."""
    ids = range(first, first + count)
    return {
        "start": [1000 * (i & 0xFFFFF) + 200 for i in ids],
        "end": [1000 * (i & 0xFFFFF) + 700 for i in ids],
        "correlation": [i & 0xFFFFFFFF for i in ids],
        "name": 1,
        "shape": 1,
        "context": 1,
        "stream": 7,
        **other,
    }
