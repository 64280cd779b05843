"""Probes on a machine without a GPU: threads of the Sanitizer's stand-in add to maps as device code does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpsight as ws
from tests.integration.recorded import TIMEOUT
from tests.integration.test_events_standin import Programs, programs
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.events.tracing import TraceSelection
from warpsight.sass.probes.definition import Probe, translated
from warpsight.sass.probes.results import Results, results
from warpsight.sass.probes.running import request

__all__ = ["programs"]

of_warp = ws.probes.array(1, per="warp")
of_launch = ws.probes.counter()


@ws.probe(at="memory")
def counts(event: ws.probes.Event) -> None:
    """What the stand-in does in its stead."""
    of_warp.add(0, 1)
    of_launch.add()


def _run(
    programs: Programs, folder: Path, *steps: str, probe: Probe = counts, selection: TraceSelection = TraceSelection(),
    map_mib: int = 1024, **variables: str,
) -> tuple[Results, str]:  # fmt: skip
    lines = request(
        translated([probe]),
        selection,
        folder / "events",
        programs.folder / "libsanitizer-public.so",
        [Path("/p")],
        map_mib,
    )
    written = [
        step.replace("load", f"load:{programs.cubin}").replace(":K:", f":{programs.kernel}:")
        for step in steps
    ]
    environment = {
        **os.environ, **variables, "CUDA_INJECTION64_PATH": str(programs.library), "WARPSIGHT_EVENTS": "\n".join(lines),
    }  # fmt: skip
    done = subprocess.run([programs.folder / "program", *written], env=environment, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    files = [EventTrace(path) for path in sorted(folder.glob("events.*"))]
    return results(files, done.returncode), done.stdout + done.stderr


def test_each_launch_has_its_own_maps(programs: Programs, tmp_path: Path) -> None:
    found, _ = _run(programs, tmp_path, "load", "launch:K:4:10", "launch:K:2:7", "sync", "launch:K:3:5")
    assert (found.code, found.launches) == (0, 3)
    rows = found["of_warp"].select(["launch", "block", "warp", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        *((0, 0, warp, 10) for warp in range(4)), *((1, 0, warp, 7) for warp in range(2)),
        *((2, 0, warp, 5) for warp in range(3)),
    ]  # fmt: skip
    assert found["of_launch"].select(["launch", "value"]).to_pylist() == [
        {"launch": 0, "value": 20}, {"launch": 1, "value": 7}, {"launch": 2, "value": 10},
    ]  # fmt: skip
    assert found.notes == tuple(
        f"of_launch: {lost} additions of launch {launch} did not fit into the map"
        for launch, lost in enumerate((20, 7, 5))
    )


def test_memory_is_used_again_and_zeroed_once_the_program_has_waited(
    programs: Programs, tmp_path: Path
) -> None:
    steps = ["load", *["launch:K:2:3", "sync"] * 50]
    found, _ = _run(programs, tmp_path, *steps, map_mib=1)
    assert found["of_warp"]["value"].to_pylist() == [3] * 100


def test_launches_beyond_the_memory_are_counted_and_told(programs: Programs, tmp_path: Path) -> None:
    large = ws.probes.array(1 << 16, per="grid")

    @ws.probe(at="memory")
    def one(event: ws.probes.Event) -> None:
        of_warp.add(0, 1)
        large.add(0, 1)

    found, _ = _run(programs, tmp_path, "load", *["launch:K:1:1"] * 5, probe=one, map_mib=1)
    assert found.launches == 1  # its 512 KiB and a bit are a piece of 1 MiB
    assert [note for note in found.notes if "--map-mib" in note and note.endswith("(4)")]


def test_what_cannot_be_read_is_told(programs: Programs, tmp_path: Path) -> None:
    found, _ = _run(programs, tmp_path, "load", "launch:K:2:3", STANDIN="refuse_copies")
    assert found.code == 0
    assert found["of_warp"].num_rows == 0
    assert any("could not be read" in note for note in found.notes)


def test_maps_of_waited_launches_survive_a_sudden_end(programs: Programs, tmp_path: Path) -> None:
    found, _ = _run(programs, tmp_path, "load", "launch:K:2:3", "sync", "launch:K:2:3", "quit")
    assert found.code == 5
    assert found["of_warp"]["launch"].to_pylist() == [0, 0]
    assert any("ended before its trace did" in note for note in found.notes)


def test_kernels_of_no_probe_stay_as_they_are(programs: Programs, tmp_path: Path) -> None:
    @ws.probe(at="memory", kernel="another*")
    def other(event: ws.probes.Event) -> None:
        of_launch.add()

    found, printed = _run(programs, tmp_path, "load", "launch:K:2:3", probe=other)
    assert (found.launches, printed) == (0, "patched 0\n")


def test_results_are_a_table_of_the_trace(programs: Programs, tmp_path: Path) -> None:
    _run(programs, tmp_path, "load", "launch:K:2:3")
    (file,) = tmp_path.glob("events.*")
    sql = "SELECT map, grid_launch, block, warp, key, value FROM probe_value ORDER BY ALL"
    command = [sys.executable, "-m", "warpsight", "query", str(file), sql, "--format", "ndjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [tuple(row.values()) for row in rows] == [
        ("of_launch", 0, None, None, 0, 3), ("of_warp", 0, 0, 0, 0, 3), ("of_warp", 0, 0, 1, 0, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["coalescing", "barrier-wait"])
def test_without_a_gpu_the_command_says_so(tmp_path: Path, name: str) -> None:
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "sass",
        "probe",
        "-o",
        str(tmp_path / "o"),
        name,
        "--",
        "true",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode == 0:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
