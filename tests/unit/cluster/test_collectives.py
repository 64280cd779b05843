"""Collectives of a rank as its NCCL ranges tell them, and who the rank is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpsight.cluster.collectives import collectives
from warpsight.cluster.summary import summarize
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

INIT, CALL = "ncclCommInitRank", 1 << 20


def write(path: Path, function: str, kernel: str, ranks: int | None) -> None:
    """A kernel of communication launched inside a range of NCCL; the communicator's size is told when it is made."""
    told: list[tuple[str, int, dict[str, int]]] = [
        (INIT, 100, {} if ranks is None else {"No. of ranks": ranks}),
        (function, 1_000, {"Message size [bytes]": CALL}),
    ]
    with TraceWriter(path) as writer:
        writer.add(
            "process",
            [
                {
                    "process": 0,
                    "pid": 7,
                    "host": "node7",
                    "command": "train.py",
                    "executable": "python",
                    "start": 0,
                    "end": 9_000,
                    "rank": 3,
                }
            ],
        )
        writer.add("marker", [
            {"start": start, "duration": 500, "name_id": writer.name(name), "kind": "push/pop", "source": "nvtx", "thread": 1,
             "process": 0, "open": False, "attributes": json.dumps({"NCCL communicator ID": 77, **more})}
            for name, start, more in told
        ])  # fmt: skip
        writer.add("launch", [{"start": 1_100, "duration": 200, "function": "cudaLaunchKernel", "thread": 1, "correlation": 1,
                               "process": 0, "captured": False}])  # fmt: skip
        writer.add("kernel", [{"start": 2_000, "duration": 700, "name_id": writer.name(kernel), "device": 0, "context": 1,
                               "stream": 20, "correlation": 1, "process": 0, "graph_level": False}])  # fmt: skip


@pytest.mark.parametrize(
    ("function", "kernel", "ranks", "size"),
    [
        ("ncclAllGather", "ncclDevKernel_AllGather_RING_LL", 8, 8 * CALL),  # the call names one rank's part
        ("ncclAllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 8, CALL),
        ("ncclAllGather", "ncclDevKernel_AllGather_RING_LL", None, CALL),
    ],
)
def test_bytes_are_those_of_the_whole_collective(
    tmp_path: Path, function: str, kernel: str, ranks: int | None, size: int
) -> None:
    write(tmp_path / "a.warp", function, kernel, ranks)
    with open_trace(tmp_path / "a.warp") as trace:
        (found,) = collectives(trace, 0).to_pylist()
    assert (found["bytes"], found["ranks"], found["group"]) == (size, ranks, "0x4d")


def test_a_rank_is_known_by_its_number_host_and_process(tmp_path: Path) -> None:
    write(tmp_path / "a.warp", "ncclAllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 8)
    with open_trace(tmp_path / "a.warp") as trace:
        (found,) = summarize(trace, "a.warp")
    assert (found.about.rank, found.about.host, found.about.pid, found.about.command) == (
        3,
        "node7",
        7,
        "train.py",
    )
