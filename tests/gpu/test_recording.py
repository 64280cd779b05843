"""Real programs on a real GPU: every launch has its kernel, its stack and a plausible time."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warpsight

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent

ADD = """
import torch
x = torch.ones(1 << 16, device="cuda")
def add():
    x.add_(1)
for _ in range(1000):
    add()
torch.cuda.synchronize()
"""
GRAPH = """
import torch
x = torch.ones(1 << 10, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x.add_(1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(10):
        x.add_(1)
for _ in range(50):
    graph.replay()
torch.cuda.synchronize()
"""
BACKWARD = """
import torch
layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64, device="cuda") for _ in range(8)))
x = torch.ones(32, 64, device="cuda")
def first():
    layers(x).sum().backward()
def second():
    layers(x).square().mean().backward()
for _ in range(20):
    first()
    second()
torch.cuda.synchronize()
"""


def record(path: Path, program: list[str], *options: str) -> warpsight.Trace:
    command = [sys.executable, "-m", "warpsight.ui.cli", "record", "-o", str(path), *options, "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return warpsight.open(path)


def needs_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")


def test_every_launch_of_a_loop_has_its_kernel_and_its_line(library: Path, tmp_path: Path) -> None:
    needs_torch()
    script = tmp_path / "add.py"
    script.write_text(ADD)
    trace = record(tmp_path / "add.warp", [sys.executable, str(script)])
    joined = trace.sql(
        """SELECT count(*), count(k.start), count(l.stack), count(*) FILTER (k.start >= l.start)
        FROM launch l JOIN kernel k USING (process, correlation) WHERE k.name LIKE '%add%'"""
    ).fetchall()[0]
    assert joined[0] >= 1000
    assert set(joined) == {joined[0]}
    lines = trace.sql(
        "SELECT DISTINCT line FROM frame WHERE function = 'add' AND file LIKE '%add.py'"
    ).fetchall()
    assert lines == [(5,)]
    assert trace.sql("SELECT count(*) FROM loss WHERE severity = 'lost'").fetchall() == [(0,)]


def test_launches_of_backward_carry_the_line_that_called_it(library: Path, tmp_path: Path) -> None:
    """PyTorch's engine launches from threads without Python frames: theirs are of the thread that waits for them."""
    needs_torch()
    script = tmp_path / "backward.py"
    script.write_text(BACKWARD)
    trace = record(tmp_path / "backward.warp", [sys.executable, str(script)])
    launches, with_stack, waiters = trace.sql(
        """SELECT count(*), count(l.stack), count(*) FILTER (s.method = 'waiter')
        FROM launch l LEFT JOIN stack s ON s.id = l.stack"""
    ).fetchall()[0]
    assert waiters >= launches // 4, "a pass makes most of its launches in backward"
    assert with_stack >= launches * 0.99
    lines = trace.sql(
        """WITH RECURSIVE up AS (
            SELECT DISTINCT s.id AS leaf, s.parent, s.frame FROM launch l JOIN stack s ON s.id = l.stack
            WHERE s.method = 'waiter'
            UNION ALL SELECT up.leaf, s.parent, s.frame FROM up JOIN stack s ON s.id = up.parent)
        SELECT DISTINCT f.function, f.line FROM up JOIN frame f ON f.id = up.frame
        WHERE f.file LIKE '%backward.py' AND f.function IN ('first', 'second') ORDER BY 1"""
    ).fetchall()
    assert lines == [("first", 6), ("second", 8)]


def test_every_node_of_a_replayed_graph_is_a_kernel(library: Path, tmp_path: Path) -> None:
    needs_torch()
    script = tmp_path / "graph.py"
    script.write_text(GRAPH)
    trace = record(tmp_path / "graph.warp", [sys.executable, str(script)], "--graph", "node")
    rows = trace.sql("SELECT count(*), count(start) FROM kernel WHERE graph_node IS NOT NULL").fetchall()
    assert rows == [(500, 500)]


def test_all_launch_forms_agree_with_the_programs_own_log(library: Path, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    forms = tmp_path / "liblaunch_forms.so"
    build = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", "-o", str(forms)]
    build += [str(HERE / "launch_forms.cu"), "-lcuda"]
    subprocess.run(build, check=True, capture_output=True)
    log = tmp_path / "log.json"
    program = [sys.executable, str(HERE / "stack_log.py"), str(log), str(forms), "10000", "8"]
    path = tmp_path / "forms.warp"
    record(path, program)
    check = [sys.executable, str(HERE / "check_stack_log.py"), str(path), str(log)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])
