"""Two GPUs of one process at once: what is sampled, counted and measured of each."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpsight
from tests.gpu.test_capture import built

pytestmark = pytest.mark.gpu
SOURCE = Path(__file__).parent / "two_gpus.cu"
ROUNDS = 40
#: By the program: warps of a launch, and trips of each.
WARPS, TRIPS = 64 * 128 // 32, 100_000
COPIED = 64 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    listed = (
        subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        if shutil.which("nvidia-smi")
        else None
    )
    if listed is None or listed.stdout.count("GPU ") < 2:
        pytest.skip("one GPU")
    folder = tmp_path_factory.mktemp("two_gpus")
    return built(SOURCE, folder / "two_gpus", "-std=c++17", "-O3", "-lineinfo", "-arch=native")


def _run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _recorded(program: Path, name: str, *options: str) -> Any:
    path = program.with_name(f"{name}.warp")
    _run("record", "-q", "-f", "-o", str(path), *options, "--", str(program), str(ROUNDS))
    return warpsight.open(path)


def test_program_counters_of_both_are_sampled(program: Path) -> None:
    marked = {
        name: at
        for at, text in enumerate(SOURCE.read_text().splitlines(), 1)
        for name in ("first", "second")
        if text.endswith(f"// {name}")
    }
    with _recorded(program, "samples", "--pc-sampling", "on") as trace:
        assert not trace.sql("SELECT cause FROM loss").fetchall()
        rows = trace.sql(
            "SELECT index, count(DISTINCT context), sum(samples) FROM pc_window JOIN device USING (device) "
            "GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert [row[:2] for row in rows] == [(0, 1), (1, 1)]
    assert min(row[2] for row in rows) > 10_000
    found = json.loads(_run("sass", "hotspots", "--json", str(program.with_name("samples.warp"))))
    lines = {
        kernel["name"].partition("(")[0]: kernel["lines"][0]["frames"][-1]["line"]
        for kernel in found["kernels"]
    }
    assert lines == marked


def test_executions_on_both_are_counted(program: Path) -> None:
    kernels = json.loads(_run("sass", "counts", "--json", "--", str(program), "3"))["kernels"]
    found = {
        kernel["name"].partition("(")[0]: max(
            one["metrics"]["smsp__sass_inst_executed"]
            for one in kernel["instructions"]
            if one["sass"].startswith(("FFMA", "POPC"))
        )
        for kernel in kernels
    }
    assert found == {"first": 3 * WARPS * TRIPS, "second": 3 * WARPS * TRIPS}


def test_metrics_of_both_are_sampled(program: Path) -> None:
    options = ("--metrics", "sm__inst_executed.sum", "--metrics-every", "200")
    with _recorded(program, "metrics", *options) as trace:
        rows = trace.sql(
            "SELECT index, count(*), max(value) FROM counter JOIN device USING (device) "
            "WHERE counter.name LIKE '%sm__inst_executed%' GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert [row[0] for row in rows] == [0, 1]
    assert min(row[1] for row in rows) > 10
    assert min(row[2] for row in rows) > 0


def test_copies_between_them_are_seen_on_their_links(program: Path) -> None:
    options = ("--metrics", "nvltx__bytes.sum", "--metrics-every", "200")
    with _recorded(program, "links", *options) as trace:
        copies = trace.sql(
            "SELECT count(*), sum(bytes), count(DISTINCT source_device), min(source_device <> destination_device) "
            "FROM memcpy WHERE kind = 'PtoP'"
        ).fetchall()
        sent = dict(
            trace.sql(
                "SELECT index, sum(value) FROM counter JOIN device USING (device) "
                "WHERE counter.name LIKE '%nvltx__bytes%' GROUP BY 1"
            ).fetchall()
        )
    assert copies == [(ROUNDS, ROUNDS * COPIED, 1, True)]
    assert 0.9 * ROUNDS * COPIED < sent[0] < 1.3 * ROUNDS * COPIED
    assert sent[1] < sent[0]
