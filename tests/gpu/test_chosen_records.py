"""Kinds of records that `--trace` has to ask for, on a real GPU."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warpsight

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent


def recorded(path: Path, kinds: str, *program: str, graph: str = "node") -> warpsight.Trace:
    options = ("--trace", kinds, "--graph", graph)
    command = [sys.executable, "-m", "warpsight", "record", "-o", str(path), *options, "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return warpsight.open(path)


def test_ids_that_the_program_pushed_join_its_launches_and_kernels(library: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    trace = recorded(
        tmp_path / "t.warp", "kernel,memcpy,memset,external", sys.executable, str(HERE / "external_ids.py")
    )
    for table in ("kernel", "launch"):
        rows = trace.sql(f"SELECT e.kind, e.external_id FROM {table} t JOIN external_id e USING (process, correlation) "
                         "WHERE t.name LIKE '%add%' OR t.name LIKE '%Add%' ORDER BY t.start").fetchall()  # fmt: skip
        assert rows == [("custom 0", 1000 + number) for number in range(5)]
    ids = trace.sql("SELECT DISTINCT external_id FROM external_id ORDER BY 1").fetchall()
    assert ids == [(1000 + number,) for number in range(5)]


def test_graphs_that_the_device_launches_are_rows_without_a_call(library: Path, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program = tmp_path / "device_graph"
    source = HERE / "device_graph.cu"
    flags = ("-O2", "-std=c++17", "-arch=native", "-rdc=true")
    subprocess.run(["nvcc", *flags, "-o", program, source, "-lcudadevrt"], check=True)
    trace = recorded(tmp_path / "t.warp", "kernel,memcpy,memset,device_graph", str(program), graph="graph")
    rows = trace.sql(
        "SELECT correlation IS NULL, duration > 0, name FROM kernel WHERE graph_level ORDER BY 1, 3"
    )
    on_device = (True, True, "graph launched on the device (fire and forget)")
    assert rows.fetchall() == [*[(False, True, None)] * 3, *[on_device] * 3]
