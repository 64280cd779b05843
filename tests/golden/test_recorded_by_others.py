"""Traces that other tools made on an H200, against an independent reading of the same files."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import warpsight
from warpsight.formats.importing import import_files

HERE = Path(__file__).parent / "recorded"


def events(name: str = "kineto_h200.json.gz") -> list[dict[str, Any]]:
    content = gzip.decompress((HERE / name).read_bytes())
    return json.loads(content, parse_float=Decimal)["traceEvents"]


def test_kineto_kernels_copies_and_launches_are_those_of_the_file() -> None:
    listed = [e for e in events() if e.get("ph") == "X"]
    with warpsight.open(HERE / "kineto_h200.json.gz") as trace:
        for category, table in (("kernel", "kernel"), ("gpu_memcpy", "memcpy")):
            expected = [e for e in listed if e.get("cat") == category]
            rows = trace.sql(
                f"SELECT count(*), sum(duration), count(DISTINCT stream) FROM {table}"
            ).fetchall()
            spent = sum(int(Decimal(str(e["dur"])) * 1000) for e in expected)
            assert rows == [(len(expected), spent, len({e["args"]["stream"] for e in expected}))], category
        names = Counter(e["name"] for e in listed if e.get("cat") == "kernel")
        assert dict(trace.sql("SELECT name, count(*) FROM kernel GROUP BY name").fetchall()) == names
        joined = trace.sql(
            "SELECT count(*) FROM kernel k JOIN launch l USING (process, correlation)"
        ).fetchall()
        launched = {
            e["args"]["correlation"] for e in listed if e.get("cat") in ("cuda_runtime", "cuda_driver")
        }
        kernels = [e["args"]["correlation"] for e in listed if e.get("cat") == "kernel"]
        assert joined == [(sum(c in launched for c in kernels),)]
        assert trace.loss.num_rows == 0


def test_kineto_graph_launches_share_their_kernels_and_operators_are_kept() -> None:
    listed = events()
    with warpsight.open(HERE / "kineto_h200.json.gz") as trace:
        graphs = trace.sql(
            "SELECT l.function, count(*) FROM launch l JOIN kernel k USING (process, correlation) "
            "WHERE l.function = 'cudaGraphLaunch' GROUP BY l.function, l.correlation"
        ).fetchall()
        assert graphs == [("cudaGraphLaunch", 4)] * 2
        operators = sum(e.get("cat") == "cpu_op" for e in listed)
        assert trace.count("op") == operators
        moved = sum(e.get("name") == "[memory]" for e in listed)
        assert trace.count("memory") == moved


def test_two_ranks_become_two_processes_with_the_sizes_of_their_collectives(tmp_path: Path) -> None:
    files = [f"kineto_h200x2_rank{rank}.json.gz" for rank in (0, 1)]
    import_files([HERE / name for name in files], tmp_path / "job.warp")
    with warpsight.open(tmp_path / "job.warp") as trace:
        assert trace.sql("SELECT rank, world_size FROM process ORDER BY rank").fetchall() == [(0, 2), (1, 2)]
        for rank, name in enumerate(files):
            kernels = [e for e in events(name) if e.get("cat") == "kernel"]
            found = trace.sql(
                "SELECT count(*), sum(duration), count(DISTINCT device) FROM kernel JOIN process p USING (process) "
                "WHERE p.rank = $rank",
                rank=rank,
            ).fetchall()
            assert found == [(len(kernels), sum(int(Decimal(str(e["dur"])) * 1000) for e in kernels), 1)]
            sized = [e["args"] for e in kernels if "In msg nelems" in e["args"]]
            collectives = trace.sql(
                "SELECT count(*), sum(bytes), min(ranks), max(ranks) FROM collective JOIN process p USING (process) "
                "WHERE p.rank = $rank AND operation = 'all-reduce'",
                rank=rank,
            ).fetchall()
            assert collectives == [(len(sized), sum(4 * a["In msg nelems"] for a in sized), 2, 2)]  # Float


def test_jax_kernels_are_read_with_their_times() -> None:
    with warpsight.open(HERE / "jax_h200.xplane.pb") as trace:
        kernels, times, devices = trace.sql(
            "SELECT count(*), count(*) FILTER (duration > 0), count(DISTINCT device) FROM kernel"
        ).fetchall()[0]
        assert (kernels, times, devices) == (12, 12, 1)
        steps = trace.sql("SELECT count(*) FROM marker WHERE name LIKE 'train%'").fetchall()
        assert steps[0][0] >= 3


def test_a_memory_snapshot_of_torch_is_read_without_running_it() -> None:
    snapshot = warpsight.memory.read_torch_snapshot(str(HERE / "torch_memory_h200.pickle"))
    assert snapshot is not None
