"""NVTX events of a C program that knows no CUDA, through NVIDIA's own headers."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.standin import recording
from tests.standin.recording import Arena, Outcome

PUSH, POP, START, END, INSTANT = 1, 2, 3, 4, 5


@pytest.fixture(scope="module")
def program(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built program."""
    headers = recording.cuda_headers()
    compiler = shutil.which("cc")
    if headers is None or compiler is None or not (headers / "nvtx3" / "nvToolsExtPayload.h").is_file():
        pytest.skip("building the NVTX program needs a C compiler and NVTX's headers")
    built = tmp_path_factory.mktemp("nvtx") / "nvtx_program"
    source = recording.SOURCES / "nvtx_program.c"
    subprocess.run(
        [compiler, "-O1", "-isystem", headers, "-o", built, source, "-pthread", "-ldl"], check=True
    )
    return built


@pytest.fixture
def outcome(program: Path, library: Path, tmp_path: Path) -> Outcome:
    """The program, recorded."""
    done = recording.run([program], tmp_path, {"NVTX_INJECTION64_PATH": str(library)})
    assert done.code == 0, done.errors
    return done


def marker(arena: Arena, name: str, phase: int) -> dict[str, int]:
    """The one marker row of that name and phase."""
    rows = arena.rows("Marker")
    found = [
        row
        for row, text in zip(rows, arena.names(rows), strict=True)
        if text == name and row["phase"] == phase
    ]
    assert len(found) == 1, f"{len(found)} markers {name!r}"
    return dict(zip(rows.dtype.names or (), found[0].tolist(), strict=True))


def test_the_program_sees_the_depths_nvtx_promises(outcome: Outcome) -> None:
    assert outcome.output.splitlines() == ["depth 1", "pop without push -1"]


def test_ranges_and_marks_of_the_default_domain(outcome: Outcome) -> None:
    arena = outcome.only
    assert (marker(arena, "outer", PUSH)["id"], marker(arena, "wïde", PUSH)["id"]) == (0, 1)
    started = marker(arena, "started", START)
    ends = [row for row in arena.rows("Marker") if row["phase"] == END]
    assert [row["id"] for row in ends] == [started["id"]]
    assert marker(arena, "marked", INSTANT)["domain"] == 0
    phases = arena.rows("Marker")["phase"].tolist()
    assert phases.count(PUSH) == phases.count(POP) == 4


def test_domains_categories_colours_payloads_and_registered_strings(outcome: Outcome) -> None:
    arena = outcome.only
    event = marker(arena, "registered", PUSH)
    assert arena.texts[event["domain"]] == "solver"
    assert arena.texts[event["category"]] == "halo"
    assert event["color"] == 0xFF00FF00
    assert event["payload_type"] == 3
    assert struct.unpack("<d", struct.pack("<Q", event["payload"])) == (2.5,)
    assert arena.texts[marker(arena, "unnamed category", INSTANT)["category"]] == "12"


def test_extended_payloads_become_attributes(outcome: Outcome) -> None:
    arena = outcome.only
    expected = {"rank": 3, "loss": 0.5, "phase": 'warm"up'}
    assert json.loads(arena.texts[marker(arena, "step", INSTANT)["attributes"]]) == expected
    assert json.loads(arena.texts[marker(arena, "", INSTANT)["attributes"]]) == expected


def test_a_payload_that_comes_again_is_what_it_was(outcome: Outcome) -> None:
    arena = outcome.only
    rows = arena.rows("Marker")
    named = list(zip(rows, arena.names(rows), strict=True))
    turns = [json.loads(arena.texts[row["attributes"]]) for row, name in named if name == "turn"]
    assert turns == [{"operation": ("multiply", "add")[i % 2], "number": i % 3} for i in range(2001)]
    told = [json.loads(arena.texts[row["attributes"]])["text"] for row, name in named if name == "told"]
    assert told == ["first", "second"]  # at one address


def test_a_named_thread_keeps_its_name(outcome: Outcome) -> None:
    arena = outcome.only
    assert "loader" in arena.names(arena.rows("Thread"))


def test_without_a_launcher_the_program_runs_as_before(program: Path, library: Path) -> None:
    done = subprocess.run(
        [program], env={"NVTX_INJECTION64_PATH": str(library)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "depth -2"  # NVTX_NO_PUSH_POP_TRACKING: no handler took it


def run(program: Path, library: Path, folder: Path, *arguments: str, ranges: str = "") -> Outcome:
    """The program with arguments, its rows waiting for room."""
    environment = {
        "NVTX_INJECTION64_PATH": str(library),
        "WARPSIGHT_RANGES": ranges,
        "WARPSIGHT_ON_FULL": "wait",
    }
    done = recording.run([program, *arguments], folder, environment)
    assert done.code == 0, done.errors
    return done


def test_hundreds_of_payloads_in_turn_are_all_kept(program: Path, library: Path, tmp_path: Path) -> None:
    arena = run(program, library, tmp_path, "payloads", "600", "400").only
    rows = arena.rows("Marker")
    assert len(rows) == 240_000
    assert len(np.unique(rows["attributes"])) == 600
    assert not [cause for cause, _ in arena.losses() if "payload" in cause]


def test_xla_is_told_that_nobody_listens_unless_it_is_asked_for(
    program: Path, library: Path, tmp_path: Path
) -> None:
    outcome = run(program, library, tmp_path, "xla", "200", "30")
    assert outcome.output == "TSL does not listen\n"
    assert outcome.only.lost("XLA's ranges are left out") == 1


@pytest.mark.parametrize(
    ("ranges", "says", "domains"),
    [
        ("xla", "TSL listens", {"TSL"}),
        ("nvtx", "TSL does not listen", {""}),
        ("off", "TSL does not listen", set()),
        ("nvtx,xla,torch", "TSL listens", {"", "TSL"}),
        ("auto,xla", "TSL listens", {"", "TSL"}),
        ("T?L", "TSL listens", {"TSL"}),
    ],
)
def test_the_domains_that_are_asked_for(
    program: Path, library: Path, tmp_path: Path, ranges: str, says: str, domains: set[str]
) -> None:
    outcome = run(program, library, tmp_path, "xla", "200", "30", ranges=ranges)
    assert outcome.output == says + "\n"
    found = {row for arena in outcome.arenas for row in arena.names(arena.rows("Marker"), "domain")}
    assert found == domains - {""}


def test_domains_are_chosen_by_name(program: Path, library: Path, tmp_path: Path) -> None:
    done = recording.run(
        [program], tmp_path, {"NVTX_INJECTION64_PATH": str(library), "WARPSIGHT_RANGES": "sol*"}
    )
    assert done.output.splitlines() == ["depth 1", "pop without push -1"]
    rows = done.only.rows("Marker")
    assert set(done.only.names(rows, "domain")) == {"solver"}
