"""Probes on a real GPU: they find what the interpreter finds in a trace of the same program, however it launches its kernels."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from warpsight.sass.probes.ready import listed

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
BLOCKS, THREADS = 40, 128
COUNT = BLOCKS * THREADS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probes")


def _program(folder: Path, name: str) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program = folder / name
    if not program.is_file():
        subprocess.run(
            ["nvcc", "-O2", "-lineinfo", "-arch=native", "-o", program, HERE / f"{name}.cu"], check=True
        )
    return program


def _warpsight(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsight", "sass", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _probed(
    folder: Path, probe: str | Path, program: Path, *arguments: str, options: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The tables of probes in a program."""
    out = folder / "results.probes"
    done = _warpsight("probe", "--json", "-f", "-o", out, *options, probe, "--", program, *arguments)
    assert done.stdout.lstrip().startswith("{") or "\n{" in done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.rindex('{\n "launches"') :])
    return {**answer, "code": done.returncode}


def _interpreted(folder: Path, probe: str | Path, program: Path, *arguments: str) -> dict[str, Any]:
    """The same of a trace."""
    trace = folder / f"{program.name}.events"
    if not trace.is_file():
        events = "memory,values,barriers,blocks"
        done = _warpsight("trace", "-o", trace, "--events", events, "--", program, *arguments)
        assert trace.is_file(), done.stderr
    done = _warpsight("probe", "--json", probe, trace)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _rows(tables: dict[str, list[dict[str, Any]]], *without: str) -> dict[str, list[str]]:
    return {
        name: sorted(
            json.dumps({key: value for key, value in row.items() if key not in without}) for row in rows
        )
        for name, rows in tables.items()
    }


@pytest.mark.parametrize("name", ["event_truth", "probed"])
def test_the_device_finds_what_the_interpreter_finds(folder: Path, name: str) -> None:
    program = _program(folder, name)
    expected = _interpreted(folder, HERE / "probes.py", program)
    found = _probed(folder, HERE / "probes.py", program)
    assert found["code"] == 0
    assert len(expected["tables"]["whole"]) > COUNT
    wanted, told = _rows(expected["tables"]), _rows(found["tables"])
    for table, rows in wanted.items():
        assert told[table] == rows, table
    assert found["notes"] == expected["notes"]


@pytest.mark.parametrize("name", ["coalescing", "value-range", "nan-inf", "redundant-load"])
def test_ready_probes_find_what_the_interpreter_finds(folder: Path, name: str) -> None:
    program = _program(folder, "probed")
    found, expected = _probed(folder, name, program), _interpreted(folder, name, program)
    without = ("address", "row")
    assert _rows(found["tables"], *without) == _rows(expected["tables"], *without)
    assert sum(map(len, found["tables"].values())) > 0


def test_planted_answers_are_found(folder: Path) -> None:
    program = _program(folder, "probed")
    stored = COUNT - 50
    nan = _probed(folder, "nan-inf", program)["tables"]
    bad = range(0, stored, 9)
    assert nan["nan"][0]["value"] == sum(i % 2 for i in bad)
    assert nan["infinite"][0]["value"] == sum(1 - i % 2 for i in bad)
    assert {row["block"] * THREADS + row["thread"] for row in nan["found"] if row["launch"] == 0} == set(bad)
    redundant = _probed(folder, "redundant-load", program)["tables"]
    by_kernel = {row["kernel"].split("(")[0]: row["value"] for row in redundant["redundant"]}
    assert by_kernel["again"] == 2 * COUNT
    assert by_kernel["divergent"] == 0


def test_the_schedule_has_every_block_once_within_its_launch(folder: Path) -> None:
    tables = _probed(folder, "block-schedule", _program(folder, "probed"))["tables"]
    assert Counter((row["launch"], row["block"]) for row in tables["blocks"]) == {
        (launch, block): 1 for launch in range(3) for block in range(BLOCKS)
    }
    assert all(0 <= row["start"] < row["end"] and row["sm"] >= 0 for row in tables["blocks"])
    spans = sorted({(row["launch"], row["launch_start"]) for row in tables["blocks"]})
    ends = [
        start + max(row["end"] for row in tables["blocks"] if row["launch"] == launch)
        for launch, start in spans
    ]
    assert len(spans) == 3
    assert all(end <= start for end, (_, start) in zip(ends, spans[1:], strict=False))  # of one stream


def test_warps_that_come_early_wait_longest(folder: Path) -> None:
    tables = _probed(folder, "barrier-wait", _program(folder, "probed"))["tables"]
    waited = {row["low"]: row["count"] for row in tables["waits"] if row["kernel"].startswith("waits")}
    assert sum(waited.values()) == COUNT // 32
    long = sum(count for low, count in waited.items() if low >= 1 << 18)
    assert long == BLOCKS * 3  # three of four warps wait for the one that spins for two million cycles


COUNTING = """
import warpsight as ws

accesses = ws.probes.counter()
of_block = ws.probes.counter(per="cta")


@ws.probe(at="memory")
def counts(event: ws.probes.Event) -> None:
    accesses.add()
    of_block.add()
"""


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    path = tmp_path / "counting.py"
    path.write_text(COUNTING)
    return path


def test_launches_of_several_streams_are_all_told(folder: Path, counting: Path) -> None:
    found = _probed(folder, counting, _program(folder, "probed"), "streams")
    assert (found["code"], found["launches"]) == (0, 400)
    assert Counter(row["value"] for row in found["tables"]["accesses"]) == {2 * COUNT: 400}


def test_kernels_of_a_graph_are_told_apart(folder: Path, counting: Path) -> None:
    found = _probed(folder, counting, _program(folder, "probed"), "graph")
    told = Counter((row["kernel"].split("(")[0], row["value"]) for row in found["tables"]["accesses"])
    assert told == {("copy", 4 * COUNT): 3, ("waits", 64): 3, ("again", 4 * COUNT): 3}
    assert [note for note in found["notes"] if "they count as one launch (3)" in note]
    alone = _probed(folder, counting, _program(folder, "probed"), "graph", options=("-k", "again*"))
    assert [row["value"] for row in alone["tables"]["accesses"]] == [4 * COUNT] * 3
    assert alone["notes"] == []


def test_a_kernel_that_faults_faults_as_before_and_earlier_results_are_kept(folder: Path) -> None:
    found = _probed(folder, "nan-inf", _program(folder, "probed"), "fault")
    assert found["code"] == 1
    assert found["tables"]["nan"][0]["value"] > 0


def test_selections_leave_the_rest_out(folder: Path) -> None:
    program = _program(folder, "probed")
    found = _probed(
        folder, HERE / "probes.py", program, options=("-k", "again*", "--blocks", "3..5", "--warps", "1")
    )
    assert {row["block"] for row in found["tables"]["of_block"]} == {3, 4}
    assert [row["value"] for row in found["tables"]["accesses"]] == [2 * 4 * 32]
    small = _probed(folder, HERE / "probes.py", program, options=("--map-mib", "1"))
    assert any("--map-mib" in note for note in small["notes"])


def test_every_ready_probe_runs(folder: Path) -> None:
    program = _program(folder, "probed")
    for name in listed():
        found = _probed(folder, name, program)
        assert (found["code"], found["launches"]) == (0, 3), name
