"""Traces that no program would leave: times backwards and at epoch scale, nulls, unknown ids, several devices and processes."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from warpsight.analysis.base.registry import ANALYSES
from warpsight.analysis.diff.compare import compare
from warpsight.analysis.rules.verdict import verdict
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows

MINE = ("iterations", "findings", "memory", "phases", "critical-path")


def odd(path, seed):
    rng = random.Random(seed)
    origin = rng.choice((0, 5, 1_790_000_000_000_000_000))

    def time():
        return origin + rng.randrange(0, 2_000_000)

    def maybe(value):
        return value if rng.random() < 0.8 else None

    with TraceWriter(path) as writer:
        names = [writer.name(n) for n in ("gemm", "relu", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "")]
        stack = writer.stack([("main", None, None, None, "python", None)])
        n = rng.choice((1, 60))
        where = lambda: {"device": maybe(rng.randrange(2)), "context": rng.randrange(1, 3), "stream": rng.choice((0, 7, 8)),  # noqa: E731
                         "correlation": maybe(rng.randrange(1, 40)), "process": rng.randrange(2)}  # fmt: skip
        span = lambda low=0: {"start": time(), "duration": rng.choice((low, 1, 500, 90_000))}  # noqa: E731
        writer.add("kernel", [{**(span(-5) if rng.random() < 0.9 else {}), **where(), "name_id": maybe(rng.choice(names)),
                               "graph_level": False, "stack": maybe(stack), "graph": maybe(3),
                               "graph_node": maybe(rng.randrange(1, 5))} for _ in range(n)])  # fmt: skip
        writer.add("memcpy", [{**span(), **where(), "bytes": rng.randrange(10), "kind": rng.choice(("HtoD", "DtoH")),
                               "source_kind": "pageable", "destination_kind": "device",
                               "asynchronous": rng.random() < 0.5} for _ in range(n)])  # fmt: skip
        for table in ("launch", "api"):
            more = {"captured": False} if table == "launch" else {}
            writer.add(table, [{"start": time(), "duration": maybe(rng.choice((0, 5, 9_000))), "function": rng.choice("fg"),
                                "thread": rng.randrange(3), "correlation": maybe(rng.randrange(1, 40)),
                                "process": rng.randrange(2), **more} for _ in range(n)])  # fmt: skip
        kinds = ("context", "stream", "event", "stream wait event", "unheard of")
        writer.add(
            "sync",
            [
                {**span(), **where(), "kind": rng.choice(kinds), "event": maybe(rng.randrange(3))}
                for _ in range(n)
            ],
        )
        writer.add("event", [{**where(), "event": rng.randrange(3), "time": maybe(time())} for _ in range(n)])
        writer.add("graph_edge", [{"from_node": rng.randrange(1, 5), "to_node": rng.randrange(1, 5), "graph": 3, "process": 0}
                                  for _ in range(3)])  # fmt: skip
        writer.add("flow", [{"from_correlation": rng.randrange(40), "to_correlation": rng.randrange(40), "kind": "wait list",
                             "process": 0}])  # fmt: skip
        writer.add("memory", [{"time": time(), "operation": rng.choice(("allocate", "free")), "address": rng.randrange(4) << 12,
                               "bytes": maybe(rng.randrange(99)), "kind": "device", "process": 0} for _ in range(n)])  # fmt: skip
        writer.add("marker", [{"start": time(), "duration": maybe(700), "kind": "push/pop", "open": False, "thread": 1,
                               "name_id": maybe(writer.name(f"step {i}")), "source": "nvtx", "process": 0}
                              for i in range(n)])  # fmt: skip
        writer.add(
            "sample",
            [{"time": time(), "thread": 1, "stack": maybe(stack), "state": "R", "gil": True, "process": 0}],
        )
        writer.add("counter", [{"time": time(), "name": "sm_clock", "value": rng.random(), "unit": "MHz", "source": "nvml",
                                "device": 0} for _ in range(5)])  # fmt: skip
    return open_trace(path)


@pytest.mark.parametrize("seed", range(8))
def test_answers_are_whole_whatever_the_rows(tmp_path, seed):
    with odd(tmp_path / "t.warp", seed) as trace:
        results = {name: ANALYSES[name].run(trace, Rows()) for name in MINE}
        found = verdict(trace)
        assert found.headline and found.summary
        assert compare(trace, trace).verdict in ("same", "untested")
    path = results["critical-path"].tables["path"].to_pylist()
    assert all(a["start"] + a["duration"] == b["start"] for a, b in pairwise(path))
    assert sum(r["time"] for r in results["critical-path"].tables["causes"].to_pylist()) == sum(
        r["duration"] for r in path
    )
    assert all(r["bytes"] >= 0 for r in results["memory"].tables["usage"].to_pylist())
    assert all(f.saves_ns is None or f.saves_ns >= 0 for f in found.findings)
    assert sum(entry.time for entry in found.account.entries) == found.account.span
