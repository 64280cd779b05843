"""One small trace with known content, and comparison with a stored file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace

HERE = Path(__file__).parent
MAIN = ("main", "train.py", 12, None, "python", None)
STEP = ("step", "train.py", 7, None, "python", None)


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredTrace]:
    """Six launches of two kernels on one stream; every other one of the same kernel, 2 ms apart."""
    path = tmp_path_factory.mktemp("golden") / "train.warp"
    with TraceWriter(path) as writer:
        process = {"process": 0, "pid": 4711, "host": "host", "command": "python train.py"}
        writer.add("process", [{**process, "executable": "python", "start": 1_000_000_000}])
        stack = writer.stack([MAIN, STEP])
        shape = writer.shape(grid_x=64, grid_y=1, grid_z=1, block_x=256, block_y=1, block_z=1)
        for index in range(6):
            name = writer.name(("_Z3addPf", 'scale<"x">')[index % 2])
            begin = 1_000_100_001 + index * 2_000_000
            both = {
                "name_id": name,
                "shape_id": shape,
                "stack": stack,
                "process": 0,
                "correlation": index + 1,
            }
            call = {"function": "cudaLaunchKernel", "thread": 4711, "result": 0, "captured": False}
            writer.add("launch", [{**both, **call, "start": begin, "duration": 3_500}])
            place = {"context": 1, "stream": 7, "device": 0, "graph_level": False}
            writer.add(
                "kernel", [{**both, **place, "start": begin + 9_000, "duration": 1_000 * (index + 1) + 7}]
            )
    with open_trace(path) as opened:
        yield opened


@pytest.fixture
def same() -> Callable[[str, bytes], None]:
    """Compare with tests/golden/NAME; with GOLDEN_WRITE=1 in the environment the file is written instead."""

    def compare(name: str, content: bytes) -> None:
        stored = HERE / name
        if os.environ.get("GOLDEN_WRITE"):
            stored.write_bytes(content)
        assert content.decode(errors="replace") == stored.read_bytes().decode(errors="replace")

    return compare
